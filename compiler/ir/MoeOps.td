// Ops of the dialect `moe`: the symbols of a model, and programs. GenerateOps.cpp adds the instructions
// that programs consist of.
#ifndef MOE_OPS
#define MOE_OPS

include "MoeAttrs.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Moe_Op<string mnemonic, list<Trait> traits = []> : Op<Moe_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

class Moe_SymbolOp<string mnemonic, list<Trait> traits = []>
    : Moe_Op<mnemonic, !listconcat([Symbol, HasParent<"::mlir::ModuleOp">], traits)>;

def Moe_WeightOp : Moe_SymbolOp<"weight"> {
  let summary = "A resident weight: its source and its storage format";
  let description = [{
    Names a tensor of the checkpoint; never holds its numbers. The role restricts its format: any
    (`matrix`), floats only (`router`: routers and gates of a few outputs; `heads`: products per head),
    f32 only (`vector`: norms and biases; `taps`: convolutions). A width search chooses one width for
    all matrices of a `class`; one without a class is alone. `bits` is a width that was chosen for this
    matrix: 16, 8 or 4. The format is absent until assign-bits has run.

    ```mlir
    moe.weight @layer0.query matrix
      from <tensor = "model.layers.0.self_attn.q_proj.weight", rows = 64, cols = 64, type = bf16>
      as <kind = int8, group = 32, activationGroup = 32>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Moe_WeightRole:$role, Moe_SourceAttr:$source,
                       OptionalAttr<StrAttr>:$width_class, OptionalAttr<I32Attr>:$bits,
                       OptionalAttr<Moe_FormatAttr>:$format);
  let assemblyFormat = [{
    $sym_name $role `from` $source (`class` $width_class^)? (`bits` $bits^)? (`as` $format^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    uint32_t rows() { return getSource().getRows(); }
    uint32_t cols() { return getSource().getCols(); }
  }];
}

def Moe_SlicesPerExpert
    : TypedArrayAttrBase<TypedArrayAttrBase<Moe_FormatAttr, "slices of an expert">,
                         "slices per expert">;

def Moe_MoeLayerOp : Moe_SymbolOp<"moe_layer"> {
  let summary = "The routed experts of one layer";
  let description = [{
    All experts of a layer have the same matrices. `layer` is the layer's number in the model.
    `bits` has a width for each expert that was chosen before the passes: 8, 6, 5, 4, 3 or 2.
    `down_bits` has such a width for each expert's down; absent: that of `bits`.
    `slices` has, per expert, the formats of its slices, lowest first; it is absent until assign-bits
    has run. `down_slices` has the formats of down in the same slices; absent: those of gate and up.
    A float format is a single slice; several slices share one quantization grid, each refining the
    one before it by lower bits. A matrix of fewer slices than another has int0 in the last ones.
    With `squared_relu` or `gelu` there is no gate: the matrices are up and down.
    `alpha` and `limit` are the numbers of clamped_swiglu (moert::GluActivation). With
    `scaled_inputs`, the router's weights multiply the experts' input instead of their output; a
    token then has one expert.

    ```mlir
    moe.moe_layer @layer3.experts layer 3 silu experts 2
      matrices [#moe.expert_matrix<gate, [<tensor = "w1.{expert}", rows = 96, cols = 64, type = bf16>]>,
                #moe.expert_matrix<up, [<tensor = "w3.{expert}", rows = 96, cols = 64, type = bf16>]>,
                #moe.expert_matrix<down, [<tensor = "w2.{expert}", rows = 64, cols = 96, type = bf16>]>]
      slices [[#moe.format<kind = bf16>], [#moe.format<kind = bf16>]]
    ```

    Gate and up of 2 bits, and down of 3, which has a second slice:

    ```mlir
    moe.moe_layer @layer3.experts layer 3 silu experts 1 matrices [...] bits [2] down_bits [3]
      slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>,
               #moe.format<kind = int0, group = 32, activationGroup = 32, refines = true>]]
      down_slices [[#moe.format<kind = int2, group = 32, activationGroup = 32>,
                    #moe.format<kind = int1, group = 32, activationGroup = 32, refines = true>]]
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$layer, Moe_Activation:$activation,
                       OptionalAttr<F32Attr>:$alpha, OptionalAttr<F32Attr>:$limit, I32Attr:$experts,
                       TypedArrayAttrBase<Moe_ExpertMatrixAttr, "matrices">:$matrices,
                       OptionalAttr<DenseI32ArrayAttr>:$bits,
                       OptionalAttr<DenseI32ArrayAttr>:$downBits,
                       OptionalAttr<Moe_SlicesPerExpert>:$slices,
                       OptionalAttr<Moe_SlicesPerExpert>:$downSlices,
                       UnitAttr:$scaledInputs);
  let assemblyFormat = [{
    $sym_name `layer` $layer $activation (`alpha` $alpha^ `limit` $limit)? `experts` $experts
    (`scaled_inputs` $scaledInputs^)? `matrices` $matrices (`bits` $bits^)?
    (`down_bits` $downBits^)? (`slices` $slices^)? (`down_slices` $downSlices^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Inputs and outputs of an expert, and the rows of up.
    uint32_t hidden() { return matrix(ExpertPart::kUp).cols(); }
    uint32_t width() { return matrix(ExpertPart::kUp).rows(); }
    bool hasGate() {
      return ::moert::hasGate(static_cast<::moert::Activation>(getActivation()));
    }
    /// Gate only where there is one.
    ExpertMatrixAttr matrix(ExpertPart part) {
      const uint32_t first = hasGate() ? 0 : 1;
      return ::llvm::cast<ExpertMatrixAttr>(getMatrices()[static_cast<uint32_t>(part) - first]);
    }
    /// The source of a matrix of one expert.
    SourceAttr sourceOf(ExpertPart part, uint32_t expert);
    /// The formats of an expert's slices; the layer has slices.
    std::vector<::moert::ExpertFormat> formatsOf(uint32_t expert);
    /// Sets the formats of all experts' slices.
    void setFormats(::llvm::ArrayRef<std::vector<::moert::ExpertFormat>> experts);
  }];
}

def Moe_KvSlotOp : Moe_SymbolOp<"kv_slot"> {
  let summary = "Keys and values of one attention in the KV cache, per token";
  let description = [{
    With `value` 0, a value is not stored beside its key: it is the last elements of it. Both are
    stored as the kind that assign-bits gives, f32 without one.

    ```mlir
    moe.kv_slot @layer0.kv heads 2 key 16 value 16
    moe.kv_slot @layer1.kv heads 1 key 576 value 0 as f16
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$kvHeads, I32Attr:$keyDim,
                       I32Attr:$valueDim, OptionalAttr<Moe_KvKind>:$kind);
  let assemblyFormat = "$sym_name `heads` $kvHeads `key` $keyDim `value` $valueDim (`as` $kind^)? attr-dict";
  let hasVerifier = 1;
}

def Moe_StateSlotOp : Moe_SymbolOp<"state_slot"> {
  let summary = "A matrix of f32 that a sequence carries from token to token";
  let description = [{
    The last inputs of a convolution, or the memory of a recurrence; 0 before the first token.

    ```mlir
    moe.state_slot @layer0.query_tail rows 3 width 32
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I32Attr:$rows, I32Attr:$width);
  let assemblyFormat = "$sym_name `rows` $rows `width` $width attr-dict";
  let hasVerifier = 1;
}

def Moe_RopeTableOp : Moe_SymbolOp<"rope_table"> {
  let summary = "A rotary embedding with its scaling applied";
  let description = [{
    The angle of pair i is position * frequencies[i]; cos and sin are multiplied by the attention
    factor. The first 2 * |frequencies| elements of a head rotate. (Not a dense array: it would be
    printed with six digits, and the next pass would compute with other numbers.)

    ```mlir
    moe.rope_table @rope0 half factor 1.0 frequencies [1.0 : f32, 0.1 : f32, 0.01 : f32, 0.001 : f32]
    moe.rope_table @rope1 half factor 1.0 frequencies [1.0 : f32, 0.1 : f32]
      beyond 4096 factor 1.25 frequencies [0.5 : f32, 0.02 : f32]
    ```

    Sequences of more tokens than `beyond` have the factor and the frequencies that follow it.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Moe_RopeStyle:$style, F32Attr:$attentionFactor,
                       F32ArrayAttr:$inverseFrequencies, OptionalAttr<I32Attr>:$originalPositions,
                       OptionalAttr<F32Attr>:$longAttentionFactor,
                       OptionalAttr<F32ArrayAttr>:$longInverseFrequencies);
  let assemblyFormat = [{
    $sym_name $style `factor` $attentionFactor `frequencies` $inverseFrequencies
    (`beyond` $originalPositions^ `factor` $longAttentionFactor `frequencies` $longInverseFrequencies)?
    attr-dict
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "const ::moert::Rope &":$rope)>];
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

def Moe_ProgramOp : Moe_SymbolOp<"program", [
    IsolatedFromAbove, SingleBlock, NoTerminator,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A straight list of instructions for one step of a batch of tokens";
  let description = [{
    Values are rows, one per token; `moe.head` is the last instruction and the only one of its kind.
    The verifier applies the format's own rules (runtime/format/ProgramCheck.h) to each instruction.
    After moe-bufferize every instruction has `moe.offsets`, and the verifier also proves that none
    reads a row that another one has overwritten since, and that an instruction overwrites its input
    only where Instruction.h allows it, independent of how the offsets were found.

    ```mlir
    moe.program @decode {
      %h = moe.embed weight @embedding scale 1.0 {moe.offsets = array<i64: 0>} : () -> !moe.row<f32, 64>
      moe.head %h weight @embedding scale 1.0 : (!moe.row<f32, 64>) -> ()
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $body attr-dict";
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
  let extraClassDeclaration = [{
    ::mlir::Block &block() { return getBody().front(); }
  }];
}

def Moe_KvCache : Resource<"::mlir::moe::KvCacheResource">;
def Moe_States : Resource<"::mlir::moe::StatesResource">;
def Moe_Outputs : Resource<"::mlir::moe::OutputsResource">;

class Moe_InstructionOp<string mnemonic, list<Trait> traits>
    : Moe_Op<mnemonic, !listconcat([HasParent<"ProgramOp">], traits)>;

#endif // MOE_OPS
