// Attributes and types of the dialect `moe`: the sources and formats of weights, facts about the
// model, and plans.
#ifndef MOE_ATTRS
#define MOE_ATTRS

include "MoeDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

//===----------------------------------------------------------------------===//
// Enumerations. Numbers are those of runtime/format, which BuildEmitPlan relies on.
//===----------------------------------------------------------------------===//

class Moe_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::moe";
}

def Moe_WeightKind : Moe_Enum<"WeightKind", "how numbers of a weight are stored", [
  I32EnumAttrCase<"kF32", 0, "f32">, I32EnumAttrCase<"kF16", 1, "f16">, I32EnumAttrCase<"kBF16", 2, "bf16">,
  I32EnumAttrCase<"kInt8", 3, "int8">, I32EnumAttrCase<"kInt4", 4, "int4">, I32EnumAttrCase<"kInt2", 5, "int2">,
  I32EnumAttrCase<"kInt1", 6, "int1">, I32EnumAttrCase<"kMxfp4", 7, "mxfp4">, I32EnumAttrCase<"kNl2", 8, "nl2">,
  I32EnumAttrCase<"kNl4", 9, "nl4">, I32EnumAttrCase<"kInt0", 10, "int0">, I32EnumAttrCase<"kInt3", 11, "int3">,
  I32EnumAttrCase<"kInt5", 12, "int5">, I32EnumAttrCase<"kInt6", 13, "int6">, I32EnumAttrCase<"kNl3", 14, "nl3">]>;

def Moe_WeightRole : Moe_Enum<"WeightRole", "allowed formats of a weight", [
  I32EnumAttrCase<"kMatrix", 0, "matrix">,   // Any format.
  I32EnumAttrCase<"kRouter", 1, "router">,   // Routers and gates of a few outputs: never quantized.
  I32EnumAttrCase<"kVector", 2, "vector">,   // Norms and biases: f32.
  I32EnumAttrCase<"kHeads", 3, "heads">,     // Products per head: never quantized.
  I32EnumAttrCase<"kTaps", 4, "taps">]>;     // Convolutions: f32.

def Moe_ExpertPart : Moe_Enum<"ExpertPart", "matrix of an expert", [
  I32EnumAttrCase<"kGate", 0, "gate">, I32EnumAttrCase<"kUp", 1, "up">,
  I32EnumAttrCase<"kDown", 2, "down">]>;

def Moe_Activation : Moe_Enum<"Activation", "activation of a gated network", [
  I32EnumAttrCase<"kSilu", 0, "silu">,
  I32EnumAttrCase<"kClampedSwiglu", 1, "clamped_swiglu">,
  I32EnumAttrCase<"kGeluTanh", 2, "gelu_tanh">]>;

def Moe_NormKind : Moe_Enum<"NormKind", "kind of norm", [
  I32EnumAttrCase<"kRms", 0, "rms">, I32EnumAttrCase<"kLayer", 1, "layer">]>;

def Moe_RouterScoring : Moe_Enum<"RouterScoring", "selection of experts by scores", [
  I32EnumAttrCase<"kSoftmaxThenTopK", 0, "softmax_then_top_k">,
  I32EnumAttrCase<"kSigmoid", 1, "sigmoid">, I32EnumAttrCase<"kSparsemixer", 2, "sparsemixer">,
  I32EnumAttrCase<"kTopKThenSigmoid", 3, "top_k_then_sigmoid">]>;

def Moe_GroupScore : Moe_Enum<"GroupScore", "score of a group of experts", [
  I32EnumAttrCase<"kLargest", 0, "largest">, I32EnumAttrCase<"kTwoLargest", 1, "two_largest">]>;

def Moe_ProductRole : Moe_Enum<"ProductRole", "what a product is for", [
  I32EnumAttrCase<"kDense", 0, "dense">, I32EnumAttrCase<"kAttention", 1, "attention">,
  I32EnumAttrCase<"kRouter", 2, "router">]>;

def Moe_GateKind : Moe_Enum<"GateKind", "what a gate multiplies with", [
  I32EnumAttrCase<"kSigmoid", 0, "sigmoid">, I32EnumAttrCase<"kLinear", 1, "linear">]>;

def Moe_RopeStyle : Moe_Enum<"RopeStyle", "which elements of a head rotate together", [
  I32EnumAttrCase<"kHalf", 0, "half">, I32EnumAttrCase<"kInterleaved", 1, "interleaved">]>;

def Moe_KvKind : Moe_Enum<"KvKind", "how the cache stores keys and values", [
  I32EnumAttrCase<"kF32", 0, "f32">, I32EnumAttrCase<"kF16", 1, "f16">,
  I32EnumAttrCase<"kInt8", 2, "int8">]>;

def Moe_BufferKind : Moe_Enum<"BufferKind", "elements of a row", [
  I32EnumAttrCase<"kF32", 0, "f32">, I32EnumAttrCase<"kI32", 1, "i32">,
  I32EnumAttrCase<"kQuantized", 2, "quantized">,
  I32EnumAttrCase<"kHadamard", 3, "hadamard">]>;

def Moe_Sharing : Moe_Enum<"Sharing", "division of the cache's pages", [
  I32EnumAttrCase<"kLayerQuotas", 0, "layer_quotas">, I32EnumAttrCase<"kOnePool", 1, "one_pool">]>;

def Moe_Survival : Moe_Enum<"Survival", "cache contents kept for a new prompt", [
  I32EnumAttrCase<"kEverything", 0, "everything">, I32EnumAttrCase<"kContents", 1, "contents">,
  I32EnumAttrCase<"kPins", 2, "pins">]>;

def Moe_Predictor : Moe_Enum<"Predictor", "predictor of a layer's experts", [
  I32EnumAttrCase<"kOff", 0, "off">, I32EnumAttrCase<"kGate", 1, "gate">,
  I32EnumAttrCase<"kPaths", 2, "paths">,
  I32EnumAttrCase<"kAdaptiveGate", 3, "adaptive_gate">]>;

def Moe_Origin : Moe_Enum<"Origin", "reliability of a number", [
  I32EnumAttrCase<"kMeasured", 0, "measured">, I32EnumAttrCase<"kStated", 1, "stated">,
  I32EnumAttrCase<"kDerived", 2, "derived">, I32EnumAttrCase<"kAssumed", 3, "assumed">]>;

def Moe_QuantizeMethod : Moe_Enum<"QuantizeMethod", "how an expert's codes are chosen", [
  I32EnumAttrCase<"kNearest", 0, "nearest">, I32EnumAttrCase<"kPerChannel", 1, "per_channel">,
  I32EnumAttrCase<"kClipped", 2, "clipped">, I32EnumAttrCase<"kWeighted", 3, "weighted">,
  I32EnumAttrCase<"kHqq", 4, "hqq">, I32EnumAttrCase<"kGptq", 5, "gptq">]>;

/// An enumeration whose names are those of a table's rows (NamedRows.h).
class Moe_Row<string type, string rows, string row> : AttrParameter<type, "the name of a row of " # rows> {
  let parser = "::mlir::moe::parseRow<" # type # ">($_parser, " # rows # ")";
  let printer = "$_printer << ::mlir::moe::keywordOf(" # row # "($_self))";
}
def Moe_MissActionRow : Moe_Row<"::moert::MissAction", "::moert::kMissActionRows", "::moert::rowOf">;
def Moe_EvictionRow : Moe_Row<"::moert::EvictionPolicy", "::moert::kEvictionScores", "::moert::scoreOf"> {
  let defaultValue = "::moert::EvictionPolicy::kReuseDistance";
}

/// An enumeration with a default value, which is not printed.
class Moe_UsualEnum<EnumInfo info, string usual> : EnumParameter<info> {
  let defaultValue = usual;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

class Moe_Attr<string name, string attrMnemonic> : AttrDef<Moe_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Moe_SourceAttr : Moe_Attr<"Source", "source"> {
  let summary = "A matrix or vector as a part of a tensor of the checkpoint";
  let description = [{
    `rows` and `cols` are the size of the part; a vector of n elements is 1 x n. `type` is its type in
    the checkpoint (f32, f16 or bf16; mxfp4 for experts alone). `index` selects a matrix of a fused
    tensor [E, rows, cols]; a range of rows starts at `firstRow` and takes every `rowStep`-th; `transposed`: the tensor is
    stored as [inputs, outputs]. `blocks` such parts are one below the other; each is stored
    `blockStep` rows below the one before it. With `stackedVectors` the tensor is
    [stackedVectors, n], and the part is a vector of its elements in their order. With `addsOne`, 1 is
    added to every element.

    ```mlir
    #moe.source<tensor = "model.embed_tokens.weight", rows = 4096, cols = 256, type = bf16>
    #moe.source<tensor = "mlp.gate_up", rows = 64, cols = 32, type = bf16, index = 3, firstRow = 64>
    #moe.source<tensor = "kv_b_proj", rows = 64, cols = 24, type = bf16, transposed = true,
                blocks = 2, blockStep = 44>
    #moe.source<tensor = "gate_up_proj_bias", rows = 1, cols = 768, type = bf16, rowStep = 2,
                stackedVectors = 12>
    ```
  }];
  let parameters = (ins StringRefParameter<"name in the checkpoint">:$tensor,
                        "uint32_t":$rows, "uint32_t":$cols,
                        EnumParameter<Moe_WeightKind>:$type,
                        DefaultValuedParameter<"int64_t", "kAbsent">:$index,
                        DefaultValuedParameter<"uint32_t", "0">:$firstRow,
                        DefaultValuedParameter<"uint32_t", "1">:$rowStep,
                        DefaultValuedParameter<"bool", "false">:$transposed,
                        DefaultValuedParameter<"uint32_t", "1">:$blocks,
                        DefaultValuedParameter<"uint32_t", "0">:$blockStep,
                        DefaultValuedParameter<"uint32_t", "0">:$stackedVectors,
                        DefaultValuedParameter<"bool", "false">:$addsOne);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_FormatAttr : Moe_Attr<"Format", "format"> {
  let summary = "How the numbers of a matrix are stored (moert::WeightFormat)";
  let description = [{
    A float kind, or a quantized kind with the number of inputs that share a scale (`group`), the number of inputs
    whose activations share one (`activationGroup`: 16, 32 or 64, a divisor of `group`), and whether each group also
    has an offset, or a scale of one byte (`byteScales`). With `hadamard`, rows are the Hadamard transform of the
    checkpoint's, and inputs have to be transformed too (runtime/exec/Hadamard.h). A slice that `refines` has the
    low bits of the codes of the slice before it (int0: none), and no scales. The float kind mxfp4 has groups too,
    always of 32 inputs.

    ```mlir
    #moe.format<kind = mxfp4, group = 32>
    #moe.format<kind = int4, group = 32, activationGroup = 32>
    #moe.format<kind = nl4, group = 32, activationGroup = 32, byteScales = true>
    #moe.format<kind = int1, group = 32, activationGroup = 32, refines = true>
    ```
  }];
  let parameters = (ins EnumParameter<Moe_WeightKind>:$kind,
                        DefaultValuedParameter<"uint32_t", "0">:$group,
                        DefaultValuedParameter<"uint32_t", "0">:$activationGroup,
                        DefaultValuedParameter<"bool", "false">:$offsets,
                        DefaultValuedParameter<"bool", "false">:$refines,
                        DefaultValuedParameter<"bool", "false">:$byteScales,
                        DefaultValuedParameter<"bool", "false">:$hadamard);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isQuantized() const {
      return moert::isQuantized(static_cast<moert::WeightKind>(getKind()));
    }
  }];
}

def Moe_ExpertMatrixAttr : Moe_Attr<"ExpertMatrix", "expert_matrix"> {
  let summary = "One matrix of every expert of a layer";
  let description = [{
    Either one source per expert, or, in a layer of several experts, a single source for all:
    `{expert}` in its tensor's name is the expert's number; a name without it is a tensor [E, ...]
    whose leading index is the expert's number.

    ```mlir
    #moe.expert_matrix<gate, [<tensor = "experts.{expert}.w1.weight", rows = 96, cols = 64, type = bf16>]>
    ```
  }];
  let parameters = (ins EnumParameter<Moe_ExpertPart>:$part,
                        ArrayRefParameter<"SourceAttr">:$sources);
  let assemblyFormat = "`<` $part `,` `[` $sources `]` `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    uint32_t rows() const { return getSources().front().getRows(); }
    uint32_t cols() const { return getSources().front().getCols(); }
  }];
}

//===----------------------------------------------------------------------===//
// The model and its plans
//===----------------------------------------------------------------------===//

def Moe_ModelAttr : Moe_Attr<"Model", "model"> {
  let summary = "Facts about the whole model from the checkpoint's config";
  let description = [{
    `checkpoint` is the directory with the tensors of every source; `eos` are the tokens that end
    generation.

    ```mlir
    #moe.model<type = "mixtral", vocabulary = 96, hidden = 64, layers = 2, maxPositions = 512,
               eos = [2], checkpoint = "models/tiny", bos = 1>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$type, "uint32_t":$vocabulary, "uint32_t":$hidden,
                        "uint32_t":$layers, "uint32_t":$maxPositions,
                        "::mlir::DenseI32ArrayAttr":$eos,
                        StringRefParameter<"directory">:$checkpoint,
                        DefaultValuedParameter<"int64_t", "kAbsent">:$bos);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_PrefetchAttr : Moe_Attr<"Prefetch", "prefetch"> {
  let summary = "How the experts of one MoE layer are predicted and prefetched (moert::PrefetchRule)";
  let description = [{
    The predictor is the layer's gate on the router input of the MoE layer `ahead` layers before, or
    of each of these (`adaptive_gate`), or the activation-path table. The `candidates` most probable
    experts are read if they are not resident: at most `reads`, none less probable than `minProbability` / 2^24.

    ```mlir
    #moe.prefetch<predictor = gate, candidates = 15, reads = 4>
    #moe.prefetch<>
    ```
  }];
  let parameters = (ins Moe_UsualEnum<Moe_Predictor, "Predictor::kOff">:$predictor,
                        DefaultValuedParameter<"uint32_t", "1">:$ahead,
                        DefaultValuedParameter<"uint32_t", "0">:$candidates,
                        DefaultValuedParameter<"uint32_t", "0">:$reads,
                        DefaultValuedParameter<"uint32_t", "0">:$minProbability);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_MissAttr : Moe_Attr<"Miss", "miss"> {
  let summary = "What happens to a missing expert (moert::MissRule)";
  let description = [{
    Scores and the distance are in units of 2^-24. Default values are not printed.

    ```mlir
    #moe.miss<action = lower, waitUpTo = 10066330, skipBeyond = 15099494>
    #moe.miss<action = mask>
    ```
  }];
  let parameters = (ins Moe_MissActionRow:$action,
                        DefaultValuedParameter<"uint32_t", "1">:$lowSlices,
                        DefaultValuedParameter<"uint32_t", "0">:$waitUpTo,
                        DefaultValuedParameter<"uint32_t", "1 << 24">:$skipBeyond,
                        DefaultValuedParameter<"uint32_t", "0">:$substituteWithin);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_ExchangeAttr : Moe_Attr<"Exchange", "exchange"> {
  let summary = "How experts in memory are exchanged for more important ones (moert::ExchangeRule)";
  let description = [{
    Each layer exchanges one expert in `everyTokens` tokens, which takes part `afterTokens` later. A token
    takes 1/2^`fadeShift` of an importance.

    ```mlir
    #moe.exchange<everyTokens = 4, fadeShift = 5>
    ```
  }];
  let parameters = (ins DefaultValuedParameter<"uint32_t", "0">:$everyTokens,
                        DefaultValuedParameter<"uint32_t", "1">:$afterTokens,
                        DefaultValuedParameter<"uint32_t", "6">:$fadeShift);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_PlanTextAttr : Moe_Attr<"PlanText", "plan_text"> {
  let summary = "A text that a plan's loss was measured on (moert::PlanText)";
  let description = [{
    ```mlir
    #moe.plan_text<name = "acceptance.jsonl", hash = 1311768467463790320, bytes = 20000>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$name, "uint64_t":$hash, "uint64_t":$bytes);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Moe_PlanLossAttr : Moe_Attr<"PlanLoss", "plan_loss"> {
  let summary = "What a plan with a miss rule loses while it decodes (moert::PlanLoss)";
  let description = [{
    `quantile` has, as f64, a fraction of the units, the loss that they do not exceed and, if it was asked for, the target
    (moert::QuantileBound).

    ```mlir
    #moe.plan_loss<metric = "perplexity", loss = 0.0125, upperBound = 0.01875, confidence = 0.95,
                   klNats = 0.015625, topDisagreement = 0.0625, units = 60, documents = 60, windows = 60,
                   windowTokens = 512, texts = [#moe.plan_text<name = "a.jsonl", hash = 1, bytes = 20000>],
                   quantile = [0.9, 0.03125]>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$metric, "::mlir::FloatAttr":$loss,
                        "::mlir::FloatAttr":$upperBound, "::mlir::FloatAttr":$confidence,
                        "::mlir::FloatAttr":$klNats, "::mlir::FloatAttr":$topDisagreement,
                        "uint64_t":$units, "uint64_t":$documents, "uint64_t":$windows,
                        "uint32_t":$windowTokens, "::mlir::ArrayAttr":$texts,
                        OptionalParameter<"::mlir::ArrayAttr">:$quantile);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_StartAttr : Moe_Attr<"Start", "start"> {
  let summary = "What the cache holds of a MoE layer before the first prompt (moert::LayerStart)";
  let description = [{
    Experts in the order in which they are filled in, and how many tokens used each.

    ```mlir
    #moe.start<experts = [3, 0], uses = [17, 12]>
    ```
  }];
  let parameters = (ins "::mlir::DenseI32ArrayAttr":$experts, "::mlir::DenseI32ArrayAttr":$uses);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_ReasonAttr : Moe_Attr<"Reason", "reason"> {
  let summary = "One decision of a plan, for reports (moert::PlanReason)";
  let description = [{
    ```mlir
    #moe.reason<decision = "eviction", value = "lru", why = "the preset's", origin = stated>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$decision, StringRefParameter<>:$value,
                        StringRefParameter<>:$why, EnumParameter<Moe_Origin>:$origin);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_ForecastAttr : Moe_Attr<"Forecast", "forecast"> {
  let summary = "What a plan is expected to do on a device (moert::Forecast)";
  let description = [{
    Times in ns, rates from 0 to 1.

    ```mlir
    #moe.forecast<device = "laptop", threads = 8, tokens = 448, traceTokens = 1792, tokenNs = 554765.5,
                  medianNs = 551541.0, slowNs = 727815.25, hitRate = 0.75, readyRate = 0.8125,
                  bytesPerToken = 391021.5, prefetchRecall = 0.5, prefetchPrecision = 0.5,
                  leastBytesPerToken = 140434.25, boundNs = 211102.0, origin = assumed>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$device, "uint32_t":$threads, "uint64_t":$tokens,
                        "uint64_t":$traceTokens, "::mlir::FloatAttr":$tokenNs,
                        "::mlir::FloatAttr":$medianNs, "::mlir::FloatAttr":$slowNs,
                        "::mlir::FloatAttr":$hitRate, "::mlir::FloatAttr":$readyRate,
                        "::mlir::FloatAttr":$bytesPerToken, "::mlir::FloatAttr":$prefetchRecall,
                        "::mlir::FloatAttr":$prefetchPrecision,
                        "::mlir::FloatAttr":$leastBytesPerToken, "::mlir::FloatAttr":$boundNs,
                        EnumParameter<Moe_Origin>:$origin);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_PlanAttr : Moe_Attr<"Plan", "plan"> {
  let summary = "Decisions for one memory budget (moert::Plan)";
  let description = [{
    `budgetBytes` 0: no budget was given and there are pages for every expert. `quotaPages` has one entry
    per MoE layer, and so have `pinned` (arrays of experts), `start` (`#moe.start`) and `prefetches`
    (`#moe.prefetch`) if present. `forecast` (`#moe.forecast`) is present if a trace and a device decided
    the plan. `evictionWeights` are those of recency, frequency, full frequency and nearness in units of
    2^-24, for the weighted eviction. `exchange` (`#moe.exchange`) and `expertNorms`, arrays of norms per MoE
    layer in units of 2^-24, are for eviction by importance. `loss` (`#moe.plan_loss`) is that of `miss`.
    `baseSlices` and `upperPart` are those of `moert::CacheRules`. Without `miss` (`#moe.miss`) every missing
    expert is waited for. Default values are not printed.

    ```mlir
    #moe.plan<name = "64MiB fate", budgetBytes = 67108864, contextTokens = 2048, prefillChunk = 128,
              stagingPages = 4, quotaPages = [8, 8], preset = "fate", eviction = arc,
              prefetches = [#moe.prefetch<>, #moe.prefetch<predictor = gate, candidates = 2, reads = 1>]>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$name, "uint64_t":$budgetBytes,
                        "uint32_t":$contextTokens, "uint32_t":$prefillChunk,
                        "uint32_t":$stagingPages, "::mlir::DenseI64ArrayAttr":$quotaPages,
                        StringRefParameter<"value of --preset", [{""}]>:$preset,
                        Moe_EvictionRow:$eviction,
                        Moe_UsualEnum<Moe_Sharing, "Sharing::kLayerQuotas">:$sharing,
                        Moe_UsualEnum<Moe_Survival, "Survival::kEverything">:$survival,
                        OptionalParameter<"::mlir::ArrayAttr">:$pinned,
                        OptionalParameter<"::mlir::ArrayAttr">:$start,
                        DefaultValuedParameter<"uint32_t", "1">:$startTokens,
                        OptionalParameter<"::mlir::ArrayAttr">:$prefetches,
                        OptionalParameter<"ForecastAttr">:$forecast,
                        OptionalParameter<"::mlir::ArrayAttr">:$reasons,
                        OptionalParameter<"MissAttr">:$miss,
                        OptionalParameter<"PlanLossAttr">:$loss,
                        OptionalParameter<"::mlir::DenseI32ArrayAttr">:$evictionWeights,
                        OptionalParameter<"ExchangeAttr">:$exchange,
                        OptionalParameter<"::mlir::ArrayAttr">:$expertNorms,
                        DefaultValuedParameter<"uint32_t", "0">:$baseSlices,
                        DefaultValuedParameter<"uint32_t", "0">:$upperPart);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Moe_RowType : TypeDef<Moe_Dialect, "Row"> {
  let mnemonic = "row";
  let summary = "One row of elements per token";
  let description = [{
    `group` is the activation group of a quantized row: one scale and one sum of codes per group. Quantized are
    the row itself (`quantized`) or its Hadamard transform (`hadamard`).

    ```mlir
    !moe.row<f32, 64>
    !moe.row<quantized, 64, group = 32>
    !moe.row<hadamard, 64, group = 32>
    ```
  }];
  let parameters = (ins EnumParameter<Moe_BufferKind>:$kind, "uint32_t":$width,
                        DefaultValuedParameter<"uint32_t", "0">:$group);
  let assemblyFormat = "`<` $kind `,` $width (`,` `group` `=` $group^)? `>`";
  let genVerifyDecl = 1;
}

#endif // MOE_ATTRS
