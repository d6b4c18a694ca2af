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
  I32EnumAttrCase<"kInt5", 12, "int5">, I32EnumAttrCase<"kInt6", 13, "int6">, I32EnumAttrCase<"kNl3", 14, "nl3">,
  I32EnumAttrCase<"kQ4x0", 15, "q4_0">, I32EnumAttrCase<"kQ4x1", 16, "q4_1">, I32EnumAttrCase<"kQ5x0", 17, "q5_0">,
  I32EnumAttrCase<"kQ5x1", 18, "q5_1">, I32EnumAttrCase<"kQ8x0", 19, "q8_0">, I32EnumAttrCase<"kQ2K", 20, "q2_k">,
  I32EnumAttrCase<"kQ3K", 21, "q3_k">, I32EnumAttrCase<"kQ4K", 22, "q4_k">, I32EnumAttrCase<"kQ5K", 23, "q5_k">,
  I32EnumAttrCase<"kQ6K", 24, "q6_k">, I32EnumAttrCase<"kIq4Nl", 25, "iq4_nl">, I32EnumAttrCase<"kIq4Xs", 26, "iq4_xs">]>;

def Moe_WeightRole : Moe_Enum<"WeightRole", "allowed formats of a weight", [
  I32EnumAttrCase<"kMatrix", 0, "matrix">,   // Any format.
  I32EnumAttrCase<"kRouter", 1, "router">,   // Routers and gates of a few outputs: never quantized.
  I32EnumAttrCase<"kVector", 2, "vector">,   // Norms and biases: f32.
  I32EnumAttrCase<"kHeads", 3, "heads">,     // Products per head: never quantized.
  I32EnumAttrCase<"kTaps", 4, "taps">]>;     // Convolutions and tables of numbers: f32.

def Moe_ExpertPart : Moe_Enum<"ExpertPart", "matrix of an expert", [
  I32EnumAttrCase<"kGate", 0, "gate">, I32EnumAttrCase<"kUp", 1, "up">,
  I32EnumAttrCase<"kDown", 2, "down">]>;

def Moe_Activation : Moe_Enum<"Activation", "activation of a network", [
  I32EnumAttrCase<"kSilu", 0, "silu">,
  I32EnumAttrCase<"kClampedSwiglu", 1, "clamped_swiglu">,
  I32EnumAttrCase<"kGeluTanh", 2, "gelu_tanh">,
  I32EnumAttrCase<"kSquaredRelu", 3, "squared_relu">,
  I32EnumAttrCase<"kClampedSilu", 4, "clamped_silu">,
  I32EnumAttrCase<"kGelu", 5, "gelu">, I32EnumAttrCase<"kRelu", 6, "relu">]>;

def Moe_AttendedRange : Moe_Enum<"AttendedRange", "positions that an attention reads", [
  I32EnumAttrCase<"kEarlier", 0, "earlier">, I32EnumAttrCase<"kInput", 1, "input">,
  I32EnumAttrCase<"kInputAndEarlier", 2, "input_and_earlier">]>;

def Moe_NormKind : Moe_Enum<"NormKind", "kind of norm", [
  I32EnumAttrCase<"kRms", 0, "rms">, I32EnumAttrCase<"kLayer", 1, "layer">]>;

def Moe_RouterScoring : Moe_Enum<"RouterScoring", "selection of experts by scores", [
  I32EnumAttrCase<"kSoftmaxThenTopK", 0, "softmax_then_top_k">,
  I32EnumAttrCase<"kSigmoid", 1, "sigmoid">, I32EnumAttrCase<"kSparsemixer", 2, "sparsemixer">,
  I32EnumAttrCase<"kTopKThenSigmoid", 3, "top_k_then_sigmoid">,
  I32EnumAttrCase<"kSqrtSoftplus", 4, "sqrt_softplus">]>;

def Moe_GroupScore : Moe_Enum<"GroupScore", "score of a group of experts", [
  I32EnumAttrCase<"kLargest", 0, "largest">, I32EnumAttrCase<"kTwoLargest", 1, "two_largest">]>;

def Moe_CapacityKind : Moe_Enum<"CapacityKind", "how many tokens an expert takes", [
  I32EnumAttrCase<"kTokens", 0, "tokens">, I32EnumAttrCase<"kTokenFraction", 1, "token_fraction">,
  I32EnumAttrCase<"kEvenSplit", 2, "even_split">]>;

def Moe_ProductRole : Moe_Enum<"ProductRole", "what a product is for", [
  I32EnumAttrCase<"kDense", 0, "dense">, I32EnumAttrCase<"kAttention", 1, "attention">,
  I32EnumAttrCase<"kRouter", 2, "router">]>;

def Moe_GateKind : Moe_Enum<"GateKind", "what a gate multiplies with", [
  I32EnumAttrCase<"kSigmoid", 0, "sigmoid">, I32EnumAttrCase<"kLinear", 1, "linear">]>;

def Moe_RowFunction : Moe_Enum<"RowFunction", "function of an element", [
  I32EnumAttrCase<"kIdentity", 0, "identity">, I32EnumAttrCase<"kSilu", 1, "silu">,
  I32EnumAttrCase<"kSoftplus", 2, "softplus">, I32EnumAttrCase<"kSquaredRelu", 3, "squared_relu">,
  I32EnumAttrCase<"kSignedRoot", 4, "signed_root">,
  I32EnumAttrCase<"kGelu", 5, "gelu">,
  I32EnumAttrCase<"kRelu", 6, "relu">, I32EnumAttrCase<"kTanh", 7, "tanh">]>;

def Moe_RopeStyle : Moe_Enum<"RopeStyle", "which elements of a head rotate together", [
  I32EnumAttrCase<"kHalf", 0, "half">, I32EnumAttrCase<"kInterleaved", 1, "interleaved">]>;

def Moe_KvKind : Moe_Enum<"KvKind", "how the cache stores keys and values", [
  I32EnumAttrCase<"kF32", 0, "f32">, I32EnumAttrCase<"kF16", 1, "f16">,
  I32EnumAttrCase<"kInt8", 2, "int8">]>;

def Moe_BufferKind : Moe_Enum<"BufferKind", "elements of a row", [
  I32EnumAttrCase<"kF32", 0, "f32">, I32EnumAttrCase<"kI32", 1, "i32">,
  I32EnumAttrCase<"kQuantized", 2, "quantized">,
  I32EnumAttrCase<"kHadamard", 3, "hadamard">]>;

def Moe_QuantizeMethod : Moe_Enum<"QuantizeMethod", "how an expert's codes are chosen", [
  I32EnumAttrCase<"kNearest", 0, "nearest">, I32EnumAttrCase<"kPerChannel", 1, "per_channel">,
  I32EnumAttrCase<"kClipped", 2, "clipped">, I32EnumAttrCase<"kWeighted", 3, "weighted">,
  I32EnumAttrCase<"kHqq", 4, "hqq">, I32EnumAttrCase<"kGptq", 5, "gptq">]>;

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
    the checkpoint (f32, f16 or bf16; mxfp4 and blocks of ggml's for experts alone), or in the module's artifact, of an
    expert that of its first full slice. `index` selects a matrix of a fused
    tensor [E, rows, cols]; a range of rows starts at `firstRow` and takes every `rowStep`-th; `transposed`: the tensor is
    stored as [inputs, outputs]. `blocks` such parts are one below the other; each is stored
    `blockStep` rows below the one before it. With `stackedVectors` the tensor is
    [stackedVectors, n], and the part is a vector of its elements in their order. With `addsOne`, 1 is
    added to every element. With `integers` the tensor has integers, and `type` is f32.
    With `shards`, the part is so many tensors, one below the other: `*` in the name is their number, from 0.

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
                        DefaultValuedParameter<"bool", "false">:$addsOne,
                        DefaultValuedParameter<"bool", "false">:$integers,
                        DefaultValuedParameter<"uint32_t", "1">:$shards);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$tensor, "uint32_t":$rows, "uint32_t":$cols,
                                   "WeightKind":$type), [{
    return $_get($_ctxt, tensor, rows, cols, type, kAbsent, 0, 1, false, 1, 0, 0, false, false, 1);
  }]>];
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
    always of 32 inputs, and so have blocks of ggml's, always of a block's inputs.

    ```mlir
    #moe.format<kind = mxfp4, group = 32>
    #moe.format<kind = q4_k, group = 256>
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
    `checkpoint` is the directory with the tensors of every source, and empty where a `#moe.artifact` has them; `eos`
    are the tokens that end generation.

    ```mlir
    #moe.model<type = "mixtral", vocabulary = 96, hidden = 64, layers = 2, maxPositions = 512,
               eos = [2], checkpoint = "models/tiny", bos = 1>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$type, "uint32_t":$vocabulary, "uint32_t":$hidden,
                        "uint32_t":$layers, "uint32_t":$maxPositions,
                        "::mlir::DenseI32ArrayAttr":$eos,
                        StringRefParameter<"directory", [{""}]>:$checkpoint,
                        DefaultValuedParameter<"int64_t", "kAbsent">:$bos);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

/// Plain data of the runtime: one parameter, whose describe() lists the fields
/// (runtime/base/Describe.h). FieldAttrs.h prints and parses them. Fields that have their defaults
/// are not printed; names of enumerators are those of the runtime.
class Moe_DataAttr<string name, string attrMnemonic> : Moe_Attr<name, attrMnemonic> {
  let parameters = (ins AttrParameter<"::moert::" # name, "plain data", "const ::moert::" # name # " &">:$data);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDefinition = [{
    ::mlir::Attribute $cppClass::parse(::mlir::AsmParser &parser, ::mlir::Type) {
      return parseAttr<$cppClass, ::moert::}] # name # [{>(parser);
    }
    void $cppClass::print(::mlir::AsmPrinter &printer) const { printFields(printer, getData()); }
  }];
}

def Moe_ArtifactAttr : Moe_Attr<"Artifact", "artifact"> {
  let summary = "The artifact that the module was read from, and copies its weights from";
  let description = [{
    In place of a checkpoint: weights, records and the tokenizer's table are those of the file at `path`, which
    `weights` identifies (moert::weightsChecksum()). `paths` and `trace` are the checksums of its activation-path tables
    and of its trace; 0: the module has none. `provenance` has its keys and values, in their order.

    ```mlir
    #moe.artifact<path = "qwen.moe", weights = 81985529216486895, trace = 7,
                  provenance = [["moec", "0.4.0"], ["bits", "4"]]>
    ```
  }];
  let parameters = (ins StringRefParameter<"path of an artifact">:$path, "uint64_t":$weights,
                        DefaultValuedParameter<"uint64_t", "0">:$paths,
                        DefaultValuedParameter<"uint64_t", "0">:$trace,
                        "::mlir::ArrayAttr":$provenance);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_ChatAttr : Moe_DataAttr<"Chat", "chat"> {
  let summary = "Templates of conversations, and the special tokens that they name (moert::Chat)";
  let description = [{
    ```mlir
    #moe.chat<templates = [<name = "default", text = "{{ messages }}">], specialTokens = ["eos_token" = "</s>"]>
    ```
  }];
}

def Moe_SamplingDefaultsAttr : Moe_DataAttr<"SamplingDefaults", "sampling"> {
  let summary = "How the checkpoint's authors sample (moert::SamplingDefaults)";
  let description = [{
    ```mlir
    #moe.sampling<doSample = true, temperature = 7.000000e-01, topK = 20>
    ```
  }];
}

def Moe_PlanAttr : Moe_DataAttr<"Plan", "plan"> {
  let summary = "Decisions for one memory budget (moert::Plan)";
  let description = [{
    runtime/policy/Plan.h documents the fields. Fixed-point numbers are in units of 2^-24.

    ```mlir
    #moe.plan<name = "64MiB fate", budgetBytes = 67108864, contextTokens = 2048, prefillChunkTokens = 128,
              stagingPages = 4, quotaPages = [8, 8], preset = "fate", eviction = arc,
              prefetches = [<>, <predictor = gate, candidates = 2, reads = 1>]>
    #moe.plan<name = "64MiB", budgetBytes = 67108864, contextTokens = 2048, prefillChunkTokens = 128,
              stagingPages = 4, quotaPages = [8, 8], start = [<experts = [3, 0], uses = [17, 12]>, <>],
              reasons = [<decision = "eviction", value = "lru", reason = "the preset's", origin = stated>],
              miss = <action = lower, waitUpTo = 10066330, skipBeyond = 15099494>>
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Moe_RowType : TypeDef<Moe_Dialect, "Row"> {
  let mnemonic = "row";
  let summary = "One row of elements per token, or several";
  let description = [{
    `rows` is the number of rows that a token has: an image is a token with a row per patch.

    `group` is the activation group of a quantized row: one scale and one sum of codes per group. Quantized are
    the row itself (`quantized`) or its Hadamard transform (`hadamard`).

    ```mlir
    !moe.row<f32, 64>
    !moe.row<quantized, 64, group = 32>
    !moe.row<hadamard, 64, group = 32>
    !moe.row<f32, 64 rows = 256>
    ```
  }];
  let parameters = (ins EnumParameter<Moe_BufferKind>:$kind, "uint32_t":$width,
                        DefaultValuedParameter<"uint32_t", "0">:$group,
                        DefaultValuedParameter<"uint32_t", "1">:$rows);
  let assemblyFormat = "`<` $kind `,` $width (`,` `group` `=` $group^)? (`rows` `=` $rows^)? `>`";
  let genVerifyDecl = 1;
}

#endif // MOE_ATTRS
