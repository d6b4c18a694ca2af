// The passes from a model's layers to the schedule that the runtime plays. passes/Pipeline.h puts them
// in order.
#ifndef MOE_PASSES
#define MOE_PASSES

include "mlir/Pass/PassBase.td"

def AssignBitsPass : Pass<"moe-assign-bits", "::mlir::ModuleOp"> {
  let summary = "Give every weight the format that it is stored in";
  let description = [{
    Uniform: every expert gets the asked width, every resident matrix the resident width.
    Nested, an expert of more than 2 bits is bit planes of one grid (2 + 1, 2 + 2, 2 + 2 + 2 or
    2 + 2 + 4 bits), a slice each, so that fewer bits of it can be read; otherwise 2, 4 and 8 bits
    are one slice. All planes together are the same numbers as one slice. What may not be quantized
    is not: routers and shared gates keep the type that the checkpoint has, vectors (norms, biases)
    become f32.

    `source` keeps the checkpoint's type; an expert whose matrices differ in it becomes f32, which
    holds both. 16 bits are the checkpoint's f16 or bf16; an f32 tensor is rounded to bf16, which
    keeps its range. Quantized weights are symmetric: offsets take as many bytes as the scales,
    and at 2 bits they lose more than they win (perplexity of the bundled model, rounding to nearest:
    +7.4% with them, +4.5% without).

    Before:

    ```mlir
    moe.weight @layer0.query matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
    moe.weight @layer0.router router from <tensor = "r", rows = 2, cols = 64, type = bf16>
    moe.moe_layer @layer0.experts layer 0 silu experts 2 matrices [...]
    ```

    After `--moe-assign-bits="bits=4 resident-bits=8 nested=false"`:

    ```mlir
    moe.weight @layer0.query matrix from <...> as <kind = int8, group = 32, activationGroup = 32>
    moe.weight @layer0.router router from <...> as <kind = bf16>
    moe.moe_layer @layer0.experts layer 0 silu experts 2 matrices [...]
      slices [[#moe.format<kind = int4, group = 32, activationGroup = 32>],
              [#moe.format<kind = int4, group = 32, activationGroup = 32>]]
    ```

    With `widths=FILE` (passes/WidthFile.h) every expert gets the width that the file says, and
    resident matrices that it names get theirs; `bits` then means nothing and `moe.expert_bits` is
    "auto". A width of several bit planes is as many slices, of which all but the first refine. The
    file may give the experts a group of their own, and goes before `head-bits`.

    ```
    moe-widths 1
    nested
    expert 0 0 4
    expert 0 1 3
    weight layer0.query 8
    ```

    `head-bits` is the width of the matrix that the logits come from; where the head is the embedding
    too, that of both.

    On completion every `moe.weight` has a format and every `moe.moe_layer` has slices; formats that
    were there before are replaced. `moe.expert_bits`, `moe.resident_bits` and, if it was given,
    `moe.head_bits` say what was asked for.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
  let options = [
    Option<"bits", "bits", "::mlir::moe::ExpertBits", "::mlir::moe::ExpertBits::k4",
           "width of the experts",
           [{::llvm::cl::values(
               clEnumValN(::mlir::moe::ExpertBits::kSource, "source", "as the checkpoint stores them"),
               clEnumValN(::mlir::moe::ExpertBits::k8, "8", "8 bits"),
               clEnumValN(::mlir::moe::ExpertBits::k6, "6", "6 bits, always in planes"),
               clEnumValN(::mlir::moe::ExpertBits::k4, "4", "4 bits"),
               clEnumValN(::mlir::moe::ExpertBits::k3, "3", "3 bits, always in planes"),
               clEnumValN(::mlir::moe::ExpertBits::k2, "2", "2 bits"))}]>,
    Option<"nested", "nested", "bool", "true", "experts in bit planes that refine one another">,
    Option<"residentBits", "resident-bits", "::mlir::moe::ResidentBits",
           "::mlir::moe::ResidentBits::k8", "width of the matrices that are always in memory",
           [{::llvm::cl::values(
               clEnumValN(::mlir::moe::ResidentBits::kSource, "source", "as the checkpoint stores them"),
               clEnumValN(::mlir::moe::ResidentBits::k16, "16", "f16 or bf16"),
               clEnumValN(::mlir::moe::ResidentBits::k8, "8", "int8"),
               clEnumValN(::mlir::moe::ResidentBits::k4, "4", "int4"))}]>,
    Option<"headBits", "head-bits", "::mlir::moe::ResidentBits",
           "::mlir::moe::ResidentBits::kSame", "width of the head's matrix",
           [{::llvm::cl::values(
               clEnumValN(::mlir::moe::ResidentBits::kSame, "same", "as resident-bits"),
               clEnumValN(::mlir::moe::ResidentBits::kSource, "source", "as the checkpoint stores it"),
               clEnumValN(::mlir::moe::ResidentBits::k16, "16", "f16 or bf16"),
               clEnumValN(::mlir::moe::ResidentBits::k8, "8", "int8"),
               clEnumValN(::mlir::moe::ResidentBits::k4, "4", "int4"))}]>,
    Option<"widths", "widths", "std::string", "\"\"",
           "file with the width of every expert, and of resident matrices">,
    Option<"group", "group", "uint32_t", "32", "inputs that share a scale">,
    Option<"activationGroup", "activation-group", "uint32_t", "32",
           "inputs whose activations share a scale: 16, 32 or 64, a divisor of group">,
  ];
}

def AllotCachePass : Pass<"moe-allot-cache", "::mlir::ModuleOp"> {
  let summary = "Choose the cache's page size and share it among the MoE layers, per budget";
  let description = [{
    The page is the largest power of two from 4 KiB to 64 KiB that wastes at most 2% of all
    records' bytes when each is rounded up to pages: large pages mean short lists and long reads.

    For each budget, largest first, moert::accountForBudget says how many pages are left beside
    everything else that the process needs, and moert::allotCache shares them: the very functions
    that the runtime calls when it is given another budget. Without a budget there is one plan,
    "default", that caches every expert. A budget below the smallest that works gets the smallest
    pool that can be played; plan-memory refuses it and says which budget would do. A share ("25%")
    of less than one record is refused here, as no pool follows from it.

    Before (two MoE layers of 4 experts, each of 12 KiB):

    ```mlir
    module attributes {moe.model = #moe.model<...>} {...}
    ```

    After `--moe-allot-cache`:

    ```mlir
    module attributes {moe.model = #moe.model<...>, moe.page_bytes = 4096 : i64,
        moe.plans = [#moe.plan<name = "default", budgetBytes = 0, contextTokens = 2048,
                               prefillChunk = 512, transitPages = 0, quotaPages = [12, 12],
                               preset = "auto", reasons = [...]>]} {...}
    ```

    On completion the module has `moe.page_bytes` and `moe.plans`, which are replaced if they were
    there. Needs the formats of assign-bits.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
  let options = [
    ListOption<"budgets", "budgets", "std::string",
               "memory budgets of the whole process: 512MiB, 6GiB, or a share of the experts, 25%">,
    ListOption<"presets", "presets", "std::string",
               "a plan for each of these: auto (alone where none is given), load-on-demand, lru, "
               "edgemoe, fate">,
    Option<"paths", "paths", "bool", "false", "the artifact will hold activation paths">,
    Option<"pageBytes", "page-bytes", "uint32_t", "0", "page size; 0: chosen">,
    Option<"context", "context", "uint32_t", "0",
           "tokens of context to plan for; 0: 2048, or the model's positions if they are fewer">,
    Option<"prefillChunk", "prefill-chunk", "uint32_t", "512", "tokens of a prefill chunk, at most">,
    Option<"threads", "threads", "uint32_t", "4", "threads whose stacks and scratch are counted">,
    Option<"measuredBytes", "measured-bytes", "uint64_t", "0",
           "memory of what the artifact will say was measured of it">,
  ];
}

def PlacePredictorsPass : Pass<"moe-place-predictors", "::mlir::ModuleOp"> {
  let summary = "Guess the experts of later layers behind each router, as each plan has use for";
  let description = [{
    Behind each router of `@decode` a `moe.predict` for each MoE layer 1 to `ahead` further on. They
    are the same for all plans; which of them do something is the plan's decision, so that another
    plan needs no other program. Prefill wants nearly all experts anyway and guesses nothing.

    Each plan gets the predictor of its preset, layer by layer: `fate` the layer's own gate, 1 layer
    ahead; `edgemoe` activation paths, where there are any (`paths`); the others none. The first
    MoE layer has nothing before it to be guessed from.

    Before:

    ```mlir
    func.func @decode(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
      ...
      %e, %w = moe.route %n router <@layer0.router> to @layer0.experts ...
      %x = moe.experts %n of @layer0.experts chosen %e, %w ...
    ```

    After:

    ```mlir
    module attributes {moe.plans = [#moe.plan<..., preset = "fate", eviction = arc,
        guesses = [#moe.guess<>, #moe.guess<predictor = gate>], reasons = [...]>]} {
      func.func @decode(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
        ...
        %e, %w = moe.route %n router <@layer0.router> to @layer0.experts ...
        moe.predict %n router <@layer1.router> of @layer1.experts ahead 1 : tensor<?x64xf32>
        %x = moe.experts %n of @layer0.experts chosen %e, %w ...
    ```

    On completion every guess that a plan has a rule for has a `moe.predict`; guesses that were there
    before are replaced. How much is read is for schedule-prefetch to say.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
  let options = [
    Option<"ahead", "ahead", "uint32_t", "3", "MoE layers to look ahead, at most 3; 0: no guesses">,
    Option<"paths", "paths", "bool", "false", "the artifact will hold activation paths">,
  ];
}

def SchedulePrefetchPass : Pass<"moe-schedule-prefetch", "::mlir::ModuleOp"> {
  let summary = "Say how many experts each guess reads, as the device leaves time";
  let description = [{
    From the router that guesses to the router that knows, a device computes; n experts can be read
    meanwhile (Fate, section 4.3):

        n = (t_experts + t_attention + t_router) / t_expert

    Times of computing are sums over the layers' ops at the device's rates, one token, attention over
    half of the context; t_expert is one read of the layer's largest record. A gate looks at a
    quarter of the experts (Fate: those above the 75th percentile of confidence), paths at twice as
    many as a token takes; of these, at most n that are absent are read, by paths 1 to 3 (EdgeMoE),
    and no more than the plan's transit pages hold. A layer gets no prefetch where n is below one,
    guesses by paths aside, where the pages do not hold one, or where all of its experts stay in
    memory: it would not pay. Without a device the papers' own numbers are assumed: as many as a
    token asks for, and three.

    Before:

    ```mlir
    #moe.plan<..., guesses = [#moe.guess<>, #moe.guess<predictor = gate>]>
    ```

    After `--moe-schedule-prefetch="device=laptop-nvme.yaml"`, n being 2.7 and 60 experts in a layer:

    ```mlir
    #moe.plan<..., guesses = [#moe.guess<>, #moe.guess<predictor = gate, candidates = 15, reads = 2>],
              reasons = [..., #moe.reason<decision = "prefetch of MoE layer 1", ...>]>
    ```

    On completion every rule that is not off has its counts; a rule that is off stays so until
    place-predictors runs again. Needs the plans of allot-cache and the formats of assign-bits.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
  let options = [
    Option<"device", "device", "std::string", "\"\"", "device profile (profiles/README.md)">,
    Option<"threads", "threads", "uint32_t", "4", "threads that compute; no more than the device's cores">,
  ];
}

def PlanMemoryPass : Pass<"moe-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Give every buffer a place in the arena and prove the budgets";
  let description = [{
    Works out which buffers the instructions of each function will need (with the same expansion that
    lower-to-schedule uses), from which instruction to which each is alive, and where it lies:
    largest first, each at the lowest offset where nothing alive at the same time is. Predictions
    that follow each other count as one instruction, since one product makes their scores. In-place
    operation was decided by the expansion. The places are put down as `moe.buffer` ops at the
    function's beginning, in the order in which lowering asks for them.

    Then each plan's budget is held against moert::accountMemory. A budget that does not hold is an
    error that names the smallest one that would. What the process itself needs is estimated for a
    typical run (passes/Footprint.h); the runtime accounts again with what it finds.

    Before:

    ```mlir
    func.func @decode(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
      %h = moe.embed %ids weight @embedding scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
      ...
    ```

    After:

    ```mlir
    func.func @decode(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
      %0 = moe.buffer at 0 : !moe.buffer<f32, 64>
      ...
      %h = moe.embed %ids weight @embedding scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
      ...
    ```

    On completion every function has its buffers, and every plan's budget is proved. Needs the
    formats of assign-bits.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
  let options = [
    Option<"threads", "threads", "uint32_t", "4", "threads whose stacks and scratch are counted">,
    Option<"paths", "paths", "bool", "false", "the artifact will hold activation paths">,
    Option<"measuredBytes", "measured-bytes", "uint64_t", "0",
           "memory of what the artifact will say was measured of it">,
  ];
}

def LowerToSchedulePass : Pass<"moe-lower-to-schedule", "::mlir::ModuleOp"> {
  let summary = "Replace functions on layers by programs of instructions";
  let description = [{
    One `moe.play` op per instruction of runtime/format/Schedule.h. A value that several quantized
    products read is quantized once (queries, keys and values; routed and shared experts); routers
    and shared gates take the f32 values. Results go where plan-memory put them; without it the
    buffers have no offsets. Buffers of one type at one offset become one.

    Before:

    ```mlir
    func.func @decode(%ids: tensor<?xi32>) -> tensor<?x96xf32> {
      %0 = moe.buffer at 0 : !moe.buffer<f32, 64>
      %1 = moe.buffer at 256 : !moe.buffer<quantized, 64, group = 32>
      %h = moe.embed %ids weight @embedding scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
      %logits = moe.head %h linear <@head> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
      return %logits : tensor<?x96xf32>
    }
    ```

    After:

    ```mlir
    moe.program @decode {
      %0 = moe.buffer at 0 : !moe.buffer<f32, 64>
      %1 = moe.buffer at 256 : !moe.buffer<quantized, 64, group = 32>
      moe.play.embed %0 weight @embedding scale 1.0 : !moe.buffer<f32, 64>
      moe.play.quantize %0 to %1 : !moe.buffer<f32, 64>, !moe.buffer<quantized, 64, group = 32>
      moe.play.head %1 weight @head scale 1.0 : !moe.buffer<quantized, 64, group = 32>
    }
    ```

    On completion no function is left. What the schedule has no instruction for (clamped attention)
    is refused. Needs the formats of assign-bits.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

#endif // MOE_PASSES
