// The passes from a model's instructions to the schedule that the runtime executes. passes/Pipeline.h has
// their order.
#ifndef MOE_PASSES
#define MOE_PASSES

include "mlir/Pass/PassBase.td"

def AssignBitsPass : Pass<"moe-assign-bits", "::mlir::ModuleOp"> {
  let summary = "Give every weight its storage format";
  let description = [{
    Uniform: every expert gets the width `bits`, every resident matrix the width `resident-bits`.
    Nested: an expert of more than 2 bits is stored as slices of one grid (2 + 1, 2 + 2, 2 + 2 + 1,
    2 + 2 + 2 or 2 + 2 + 4 bits), so that it can be read at fewer bits; otherwise it is one slice.
    All slices together hold the same numbers as one slice. Some weights are never quantized: routers
    and shared gates keep the checkpoint's type, vectors (norms, biases) become f32, and the matrices of
    products per head (latent attention) have 16 bits where other matrices have 16 or fewer.
    With error feedback (a `moe.quantizer` of gptq) quantized resident matrices have the codes, scales
    and transform of experts, in one slice, but an embedding is not transformed: its rows are read
    without a product.

    `source` keeps the checkpoint's type; an expert whose matrices have different types becomes f32,
    which holds all of them. 16 bits keep the checkpoint's f16 or bf16; an f32 tensor is rounded to
    bf16, which keeps its range. Quantized weights are symmetric: offsets take as many bytes as the
    scales, and at 2 bits they cost more accuracy than they save (perplexity of the bundled model,
    rounding to nearest: +7.4% with them, +4.5% without).

    Before:

    ```mlir
    moe.weight @layer0.query matrix from <tensor = "q", rows = 64, cols = 64, type = bf16>
    moe.weight @layer0.router router from <tensor = "r", rows = 2, cols = 64, type = bf16>
    moe.kv_slot @layer0.kv heads 2 key 16 value 16
    moe.moe_layer @layer0.experts layer 0 silu experts 2 matrices [...]
    ```

    After `--moe-assign-bits="bits=4 resident-bits=8 nested=false"`:

    ```mlir
    moe.weight @layer0.query matrix from <...> as <kind = int8, group = 32, activationGroup = 32>
    moe.weight @layer0.router router from <...> as <kind = bf16>
    moe.kv_slot @layer0.kv heads 2 key 16 value 16 as f16
    moe.moe_layer @layer0.experts layer 0 silu experts 2 matrices [...]
      slices [[#moe.format<kind = int4, group = 32, activationGroup = 32>],
              [#moe.format<kind = int4, group = 32, activationGroup = 32>]]
    ```

    Keys and values are f16 unless every weight is as in the checkpoint, or `kv-bits` says otherwise.
    Latent attention keeps values in keys, a few hundred numbers for all heads: at 8 bits they stay f16.

    An expert or a resident matrix for which `bits` were chosen has that width, whatever the options
    say (a chosen head overrides `head-bits`); `moe.expert_bits`, or `moe.resident_bits`, is then
    "auto". Nested widths are several slices, of which all but the first refine. With a `moe.quantizer`
    its group, offsets and nesting are those of the experts instead of the options'.

    Before, and after:

    ```mlir
    module attributes {moe.quantizer = #moe.quantizer<method = nearest, group = 32, nested = true>} {
      moe.moe_layer @layer0.experts layer 0 silu experts 2 matrices [...] bits [4, 3]
    ```

    ```mlir
      moe.moe_layer @layer0.experts layer 0 silu experts 2 matrices [...] bits [4, 3]
        slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>,
                 #moe.format<kind = int2, group = 32, activationGroup = 32, refines = true>],
                [#moe.format<kind = int2, group = 32, activationGroup = 32>,
                 #moe.format<kind = int1, group = 32, activationGroup = 32, refines = true>]]
    ```

    With `down-bits`, the experts' down has that width, and gate and up have `bits`; an expert whose
    `down_bits` were chosen has those. A matrix of fewer slices than another has nothing in the last
    ones, int0. After `--moe-assign-bits="bits=2 down-bits=3"`:

    ```mlir
      moe.moe_layer @layer0.experts layer 0 silu experts 1 matrices [...]
        slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>,
                 #moe.format<kind = int0, group = 32, activationGroup = 32, refines = true>]]
        down_slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>,
                      #moe.format<kind = int1, group = 32, activationGroup = 32, refines = true>]]
    ```

    With `low-copy`, an expert whose matrices all have more bits also has a separate copy of that width,
    which comes first and is of the same quantizer; the other copy begins with the slice that does not refine it. After
    `--moe-assign-bits="bits=8 nested=false low-copy=4"`:

    ```mlir
      moe.moe_layer @layer0.experts layer 0 silu experts 1 matrices [...]
        slices [[#moe.format<kind = int4, group = 32, activationGroup = 32>,
                 #moe.format<kind = int8, group = 32, activationGroup = 32>]]
    ```

    `head-bits` is the width of the matrix that computes the logits; where the head is the embedding
    too, the width of both.

    A product with a quantized weight reads a quantized row, so each gets a `moe.quantize` before it, of the
    row or of its Hadamard transform; CSE leaves one of those that several products read (queries, keys and
    values; routed and shared experts). Before, and after:

    ```mlir
    %q = moe.linear %n weight @layer0.query : (!moe.row<f32, 64>) -> !moe.row<f32, 64>
    ```

    ```mlir
    %c = moe.quantize %n : (!moe.row<f32, 64>) -> !moe.row<quantized, 64, group = 32>
    %q = moe.linear %c weight @layer0.query : (!moe.row<quantized, 64, group = 32>) -> !moe.row<f32, 64>
    ```

    On completion every `moe.weight` has a format and every `moe.moe_layer` has slices, and
    down_slices where a down of it is stored differently; earlier formats are replaced.
    `moe.expert_bits`, `moe.resident_bits` and, if they were given, `moe.head_bits` and, where it
    differs from `bits`, `moe.expert_down_bits` hold the values of the options.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
  let options = [
    Option<"bits", "bits", "::mlir::moe::ExpertBits", "::mlir::moe::ExpertBits::k4",
           "width of the experts",
           [{::llvm::cl::values(
               clEnumValN(::mlir::moe::ExpertBits::kSource, "source", "the checkpoint's type"),
               clEnumValN(::mlir::moe::ExpertBits::k8, "8", "8 bits"),
               clEnumValN(::mlir::moe::ExpertBits::k6, "6", "6 bits"),
               clEnumValN(::mlir::moe::ExpertBits::k5, "5", "5 bits"),
               clEnumValN(::mlir::moe::ExpertBits::k4, "4", "4 bits"),
               clEnumValN(::mlir::moe::ExpertBits::k3, "3", "3 bits"),
               clEnumValN(::mlir::moe::ExpertBits::k2, "2", "2 bits"))}]>,
    Option<"downBits", "down-bits", "uint32_t", "0",
           "width of the experts' down: 8, 6, 5, 4, 3 or 2; 0: as bits">,
    Option<"nested", "nested", "bool", "true", "experts in slices that refine one another">,
    Option<"lowCopyBits", "low-copy", "uint32_t", "0",
           "width of a separate copy of each wider expert: 2, 4 or 8; 0: none">,
    Option<"residentBits", "resident-bits", "::mlir::moe::ResidentBits",
           "::mlir::moe::ResidentBits::k8", "width of the matrices that are always in memory",
           [{::llvm::cl::values(
               clEnumValN(::mlir::moe::ResidentBits::kSource, "source", "the checkpoint's type"),
               clEnumValN(::mlir::moe::ResidentBits::k16, "16", "f16 or bf16"),
               clEnumValN(::mlir::moe::ResidentBits::k8, "8", "int8"),
               clEnumValN(::mlir::moe::ResidentBits::k4, "4", "int4"))}]>,
    Option<"headBits", "head-bits", "::mlir::moe::ResidentBits",
           "::mlir::moe::ResidentBits::kSame", "width of the head's matrix",
           [{::llvm::cl::values(
               clEnumValN(::mlir::moe::ResidentBits::kSame, "same", "the same as resident-bits"),
               clEnumValN(::mlir::moe::ResidentBits::kSource, "source", "the checkpoint's type"),
               clEnumValN(::mlir::moe::ResidentBits::k16, "16", "f16 or bf16"),
               clEnumValN(::mlir::moe::ResidentBits::k8, "8", "int8"),
               clEnumValN(::mlir::moe::ResidentBits::k4, "4", "int4"))}]>,
    Option<"kvBits", "kv-bits", "::mlir::moe::KvBits", "::mlir::moe::KvBits::kAuto",
           "width of keys and values",
           [{::llvm::cl::values(
               clEnumValN(::mlir::moe::KvBits::kAuto, "auto", "32 if every weight is as in the checkpoint, otherwise 16"),
               clEnumValN(::mlir::moe::KvBits::k32, "32", "f32"),
               clEnumValN(::mlir::moe::KvBits::k16, "16", "f16"),
               clEnumValN(::mlir::moe::KvBits::k8, "8", "int8 with a scale for 32 elements"))}]>,
    Option<"group", "group", "uint32_t", "32", "inputs that share a scale">,
    Option<"activationGroup", "activation-group", "uint32_t", "32",
           "inputs whose activations share a scale: 16, 32 or 64, a divisor of group">,
  ];
}

def PlacePredictorsPass : Pass<"moe-place-predictors", "::mlir::ModuleOp"> {
  let summary = "Predict the experts of later layers after each router";
  let description = [{
    Inserts a `moe.predict` after each router of `@decode` for each MoE layer 1 to `ahead` further
    on. They are the same for all plans; a plan decides which of them take effect, so that another
    plan needs no other program. Prefill uses nearly all experts of every layer, so it has none.

    Before:

    ```mlir
    %s = moe.linear %n weight @layer0.router role router : (!f32x64) -> !f32x8
    %e, %w = moe.route %s moeLayer @layer0.experts : (!f32x8) -> (!i32x2, !f32x2)
    %x = moe.experts %n, %e, %w moeLayer @layer0.experts : (!f32x64, !i32x2, !f32x2) -> !f32x64
    ```

    After:

    ```mlir
    %s = moe.linear %n weight @layer0.router role router : (!f32x64) -> !f32x8
    %e, %w = moe.route %s moeLayer @layer0.experts : (!f32x8) -> (!i32x2, !f32x2)
    moe.predict %n weight @layer1.router moeLayer @layer1.experts ahead 1 : (!f32x64) -> ()
    %x = moe.experts %n, %e, %w moeLayer @layer0.experts : (!f32x64, !i32x2, !f32x2) -> !f32x64
    ```

    On completion the program has these predictions and no others; earlier ones are replaced.
    make-plans decides which plan uses which of them.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
  let options = [
    Option<"ahead", "ahead", "uint32_t", "3", "MoE layers to predict ahead, at most 3; 0: no predictions">,
  ];
}

def MakePlansPass : Pass<"moe-make-plans", "::mlir::ModuleOp"> {
  let summary = "Choose the cache's page size, and make a plan for each budget and preset";
  let description = [{
    The page size is the largest power of two from 4 KiB to 64 KiB that wastes at most 2% of all
    records' bytes when each record is rounded up to pages: large pages mean short lists and long
    reads.

    For each budget, largest first, moert::accountForBudget computes how many pages remain after
    everything else that the process needs. The planner (compiler/plan/MakePlans.h) decides the rest;
    `moec replan` and `moec plan` call the same planner. Without a budget there is one plan,
    "default", that caches every expert. A budget below the smallest that works gets the smallest
    pool that can be executed; check-budgets refuses it and names the smallest budget. A fraction
    ("25%") that holds less than one record is refused here, as no pool follows from it.

    With a calibration profile and a device, `auto` is searched for on the profile's trace, the other
    presets are computed, and each plan has a forecast. Otherwise plans follow their presets' rules:

    - moert::allotCache divides the pages among the layers; the runtime calls it too when it is given
      another budget.
    - `fate` predicts each layer by its own gate, 1 layer ahead; `edgemoe` by the activation-path
      table, if there is one (`paths`); the others not. The first MoE layer has no earlier layer to
      predict it from.
    - The device computes from the router that predicts a layer to that layer's own router; meanwhile
      n experts can be read (Fate, section 4.3):

          n = (t_experts + t_attention + t_router) / t_expert

      Compute times are those of the decode step's instructions at the device's rates, for one token,
      with attention over half of the context; t_router includes the prediction. t_expert is one read of the layer's largest record. A
      gate has a quarter of the experts as candidates (Fate: those above the 75th percentile of
      confidence), an activation-path table twice as many as a token uses. At most n of them that are
      not resident are read, 1 to 3 with an activation-path table (EdgeMoE), and no more than the
      plan's staging pages hold. A layer gets no prefetch where it would not pay: where n is below
      one (except with an activation-path table), where the staging pages do not hold one record, or
      where all of its experts stay in memory. Without a device the papers' numbers are assumed: as
      many as a token uses for a gate, three for an activation-path table.

    Before (four MoE layers of 16 experts, each of 12 KiB; a token uses 2 of a layer):

    ```mlir
    module attributes {moe.model = #moe.model<...>} {...}
    ```

    After `--moe-make-plans="budgets=50% presets=fate device=F.yaml"`, if n is 4 to 22:

    ```mlir
    module attributes {moe.model = #moe.model<...>, moe.page_bytes = 4096 : i64,
        moe.plans = [#moe.plan<name = "50%", budgetBytes = 16144116, contextTokens = 512,
                               prefillChunkTokens = 512, stagingPages = 6, quotaPages = [48, 12, 12, 12],
                               preset = "fate", eviction = arc,
                               prefetches = [<>,
                                 <predictor = gate, candidates = 4, reads = 2>, ...],
                               reasons = [...]>]} {...}
    ```

    On completion the module has `moe.page_bytes` and `moe.plans`; earlier ones are replaced. Every
    rule of a plan that is not off has its `moe.predict`. Needs the offsets of bufferize, and the
    predictions of place-predictors for plans that prefetch.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
  let options = [
    ListOption<"budgets", "budgets", "std::string",
               "memory budgets of the whole process: 512MiB, 6GiB, or a fraction of the experts' bytes, 25%">,
    ListOption<"presets", "presets", "std::string",
               "presets to make plans for: auto (the default), load-on-demand, lru, "
               "edgemoe, fate">,
    Option<"calibration", "calibration", "std::string", "\"\"",
           "calibration profile (moec calibrate); implies paths">,
    Option<"device", "device", "std::string", "\"\"", "device profile (profiles/README.md)">,
    Option<"paths", "paths", "bool", "false", "the artifact will hold activation-path tables">,
    Option<"pageBytes", "page-bytes", "uint32_t", "0", "page size in bytes; 0: chosen by the pass">,
    Option<"context", "context", "uint32_t", "0",
           "tokens of context to plan for; 0: those of the module's plans, and without plans 2048, or "
           "the model's positions if they are fewer">,
    Option<"prefillChunk", "prefill-chunk", "uint32_t", "512", "maximum tokens of a prefill chunk">,
    Option<"threads", "threads", "uint32_t", "4",
           "threads whose stacks and scratch are counted; without a trace also the compute threads, at most the device's cores">,
  ];
}

def JoinProductsPass : Pass<"moe-join-products", "::mlir::ModuleOp"> {
  let summary = "Say which products are computed together, and where reads of experts begin";
  let description = [{
    What the runtime must know about the neighbours of an instruction. `joined`: consecutive products, or
    predictions, of one layer with one source, at most 4, are computed in one parallel run. `beginsReads`: the
    last prediction that follows the route of a layer's experts, or the route; the reads of the experts begin
    after it.

    Before:

    ```mlir
    %q = moe.linear %n weight @query role attention : (!f32x64) -> !f32x64
    %k = moe.linear %n weight @key role attention : (!f32x64) -> !f32x32
    ```

    After:

    ```mlir
    %q = moe.linear %n weight @query role attention : (!f32x64) -> !f32x64
    %k = moe.linear %n weight @key role attention joined : (!f32x64) -> !f32x32
    ```
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def BufferizePass : Pass<"moe-bufferize", "::mlir::ModuleOp"> {
  let summary = "Give every row an offset in the arena";
  let description = [{
    A row lives from the instruction that writes it to the last that reads it. A result lies in place of the
    first input that the declaration in Instruction.h allows and that has no later use; what an instruction
    updates stays where it is. Scratch, whose size the format's rules give, lives during its instruction.
    Offsets: largest first, each at the lowest one where no row of an overlapping lifetime is. Joined
    instructions count as one, since one parallel run computes their results.

    Before:

    ```mlir
    %h = moe.embed weight @embedding scale 1.0 : () -> !f32x64
    %n = moe.norm %h weight @norm epsilon 1.0e-6 segment 64 : (!f32x64) -> !f32x64
    moe.head %n weight @head scale 1.0 : (!f32x64) -> ()
    ```

    After:

    ```mlir
    %h = moe.embed weight @embedding scale 1.0 {moe.offsets = array<i64: 0>} : () -> !f32x64
    %n = moe.norm %h weight @norm epsilon 1.0e-6 segment 64 {moe.offsets = array<i64: 0>} : (!f32x64) -> !f32x64
    moe.head %n weight @head scale 1.0 : (!f32x64) -> ()
    ```

    On completion every program is what the runtime executes, and the verifier has proved the offsets. Needs
    the formats of assign-bits.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def CheckBudgetsPass : Pass<"moe-check-budgets", "::mlir::ModuleOp"> {
  let summary = "Prove that each plan's budget holds everything that a run needs";
  let description = [{
    Checks each budget with moert::accountMemory, independent of how the plan was made. A budget that is too
    small is an error that names the smallest one that works. The memory of the process itself is estimated
    for a typical run (passes/Footprint.h); the runtime repeats the account with exact numbers. Needs the
    offsets of bufferize. It changes nothing.
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
  let options = [
    Option<"threads", "threads", "uint32_t", "4", "threads whose stacks and scratch are counted">,
    Option<"paths", "paths", "bool", "false", "the artifact will hold activation-path tables">,
  ];
}

#endif // MOE_PASSES
