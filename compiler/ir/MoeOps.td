// Ops of the dialect `moe` on the level of layers: the symbols of a model and the ops of the functions
// that compute with them.
#ifndef MOE_OPS
#define MOE_OPS

include "MoeAttrs.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
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
    /// Inputs and outputs of an expert, and the rows of its gate.
    uint32_t hidden() { return matrix(ExpertPart::kGate).cols(); }
    uint32_t width() { return matrix(ExpertPart::kGate).rows(); }
    ExpertMatrixAttr matrix(ExpertPart part) {
      return ::llvm::cast<ExpertMatrixAttr>(getMatrices()[static_cast<uint32_t>(part)]);
    }
    /// The source of a matrix of one expert.
    SourceAttr sourceOf(ExpertPart part, uint32_t expert);
    /// The formats of an expert's slices; the layer has slices.
    std::vector<::moert::ExpertFormat> formatsOf(uint32_t expert);
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

def Moe_RopeOp : Moe_SymbolOp<"rope"> {
  let summary = "A rotary embedding with its scaling applied";
  let description = [{
    The angle of pair i is position * frequencies[i]; cos and sin are multiplied by the attention
    factor. The first 2 * |frequencies| elements of a head rotate. (Not a dense array: it would be
    printed with six digits, and the next pass would compute with other numbers.)

    ```mlir
    moe.rope @rope0 half factor 1.0 frequencies [1.0 : f32, 0.1 : f32, 0.01 : f32, 0.001 : f32]
    moe.rope @rope1 half factor 1.0 frequencies [1.0 : f32, 0.1 : f32]
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
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

def Moe_TokenIds : 1DTensorOf<[I32]>;
def Moe_Rows : 2DTensorOf<[F32]>;
def Moe_ExpertIds : 2DTensorOf<[I32]>;

class Moe_LayerOp<string mnemonic, list<Trait> traits = []>
    : Moe_Op<mnemonic, !listconcat([DeclareOpInterfaceMethods<SymbolUserOpInterface>], traits)>;

def Moe_EmbedOp : Moe_LayerOp<"embed", [Pure]> {
  let summary = "One row of the embedding per token, scaled";
  let description = [{
    ```mlir
    %h = moe.embed %ids weight @embedding scale 1.0 : tensor<?xi32> -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_TokenIds:$ids, FlatSymbolRefAttr:$weight, F32Attr:$scale);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $ids `weight` $weight `scale` $scale attr-dict `:` type($ids) `->` type($result)
  }];
}

def Moe_NormOp : Moe_LayerOp<"norm", [Pure, SameOperandsAndResultType]> {
  let summary = "Normalizes each row";
  let description = [{
    ```mlir
    %n = moe.norm %h by <rms, epsilon = 1.0e-6 : f32, @layer0.attention_norm> : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_NormAttr:$norm);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$input `by` $norm attr-dict `:` type($input)";
}

def Moe_AttentionOp : Moe_LayerOp<"attention", [SameOperandsAndResultType]> {
  let summary = "Grouped-query attention over the tokens so far, projections included";
  let description = [{
    Computes in this order: queries, keys and values of the normed input; an optional RMS norm of
    values with this epsilon, per head and without weights; optional norms of queries and keys, per
    head (a weight of one head's size) or over all heads; clamping; rotation. Without `value`, the
    products of `key` are the values too, normed as such. Keys and values
    are stored in the slot, and each query attends over the slot's positions up to its own, over the
    last `window` of them if it is given; with `chunked`, over those of its own chunk of `window`
    positions. Query head h reads key/value head h / (heads / kvHeads).
    `sinks` has a score of each head that joins the softmax's denominator only.
    With a gate, the result is multiplied by sigmoid(gate x) before the output.

    After the rotation: `norms_after_rope`, the norms of queries and keys; `plain_norm`, an RMS norm of
    each of their heads without a weight, with this epsilon; `query_scale`, a factor on the queries,
    1 + scale * ln(1 + floor((position + 1) / period)).

    Has a side effect: it writes the KV cache.

    ```mlir
    %a = moe.attention %n query <@layer0.query> key <@layer0.key> value <@layer0.value>
           output <@layer0.output> slot @layer0.kv heads 4 scale 0.25 rope @rope0
         : tensor<?x64xf32>
    %a = moe.attention %n query <@layer1.query> key <@layer1.key> output <@layer1.output>
           slot @layer1.kv heads 4 scale 1.0 value_norm 1.0e-6 : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_LinearAttr:$query, Moe_LinearAttr:$key,
                       OptionalAttr<Moe_LinearAttr>:$value, Moe_LinearAttr:$output,
                       FlatSymbolRefAttr:$slot,
                       I32Attr:$heads, F32Attr:$scale, OptionalAttr<I32Attr>:$window,
                       OptionalAttr<FlatSymbolRefAttr>:$rope, OptionalAttr<Moe_NormAttr>:$queryNorm,
                       OptionalAttr<Moe_NormAttr>:$keyNorm, OptionalAttr<F32Attr>:$clip,
                       UnitAttr:$normsAfterRope, OptionalAttr<FlatSymbolRefAttr>:$sinks,
                       OptionalAttr<Moe_LinearAttr>:$gate, OptionalAttr<F32Attr>:$valueNorm,
                       UnitAttr:$chunked, OptionalAttr<F32Attr>:$plainNorm,
                       OptionalAttr<F32Attr>:$queryScale, OptionalAttr<I32Attr>:$queryScalePeriod);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $input `query` $query `key` $key (`value` $value^)? `output` $output `slot` $slot `heads` $heads
    `scale` $scale (`window` $window^)? (`chunked` $chunked^)? (`rope` $rope^)?
    (`query_norm` $queryNorm^)? (`key_norm` $keyNorm^)? (`value_norm` $valueNorm^)? (`clip` $clip^)?
    (`norms_after_rope` $normsAfterRope^)? (`plain_norm` $plainNorm^)?
    (`query_scale` $queryScale^ `period` $queryScalePeriod)? (`sinks` $sinks^)? (`gate` $gate^)?
    attr-dict
    `:` type($input)
  }];
}

def Moe_LatentAttentionOp : Moe_LayerOp<"latent_attention", [SameOperandsAndResultType]> {
  let summary = "Attention over latents from which the heads' keys and values follow, absorbed";
  let description = [{
    Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). A token's key in the
    slot is [key | latent]: a rotated key that all heads share, and the latent, which is normed and is
    the value too. `query` gives each head [rest | shared part], from the normed input or, with
    `down`, from the norm of its product; the head's query is [shared part, rotated | key_up * rest].
    A head's result is value_up * (the attended latent). The slot has one head and `value` 0.

    Has a side effect: it writes the KV cache.

    ```mlir
    %a = moe.latent_attention %n query <@layer0.query> key <@layer0.key> latent <@layer0.latent>
           norm <rms, epsilon = 1.0e-6 : f32, @layer0.latent_norm> up @layer0.key_up, @layer0.value_up
           output <@layer0.output> slot @layer0.kv heads 4 scale 0.15 rope @rope0
           down <@layer0.query_down> <rms, epsilon = 1.0e-6 : f32, @layer0.query_norm>
         : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_LinearAttr:$query, Moe_LinearAttr:$key,
                       Moe_LinearAttr:$latent, Moe_NormAttr:$latentNorm, FlatSymbolRefAttr:$keyUp,
                       FlatSymbolRefAttr:$valueUp, Moe_LinearAttr:$output, FlatSymbolRefAttr:$slot,
                       I32Attr:$heads, F32Attr:$scale, OptionalAttr<FlatSymbolRefAttr>:$rope,
                       OptionalAttr<Moe_LinearAttr>:$queryDown, OptionalAttr<Moe_NormAttr>:$queryNorm);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $input `query` $query `key` $key `latent` $latent `norm` $latentNorm `up` $keyUp `,` $valueUp
    `output` $output `slot` $slot `heads` $heads `scale` $scale (`rope` $rope^)?
    (`down` $queryDown^ $queryNorm)? attr-dict `:` type($input)
  }];
}

def Moe_RouteOp : Moe_LayerOp<"route", [Pure]> {
  let summary = "Chooses the experts of each token";
  let description = [{
    The k best experts, best first, and the factors of their outputs. A bias is added to the scores
    that choose; factors come from the scores without it, times the expert's entry in `factors`.
    Sparsemixer has a `tolerance`.

    ```mlir
    %experts, %weights = moe.route %n router <@layer0.router> to @layer0.experts
        softmax_then_top_k renormalize true scale 1.0
      : tensor<?x64xf32> -> tensor<?x2xi32>, tensor<?x2xf32>
    %experts, %weights = moe.route %n router <@layer0.router> to @layer0.experts
        sigmoid renormalize true scale 2.5 bias @layer0.router.choice_bias
        groups <count = 8, kept = 4, score = two_largest>
      : tensor<?x64xf32> -> tensor<?x8xi32>, tensor<?x8xf32>
    %experts, %weights = moe.route %n router <@layer0.router> to @layer0.experts
        softmax_then_top_k renormalize true scale 1.0 factors @layer0.router.weight_factors
      : tensor<?x64xf32> -> tensor<?x8xi32>, tensor<?x8xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_LinearAttr:$router, FlatSymbolRefAttr:$moeLayer,
                       Moe_RouterScoring:$scoring, BoolAttr:$renormalize, F32Attr:$weightScale,
                       OptionalAttr<FlatSymbolRefAttr>:$choiceBias,
                       OptionalAttr<Moe_RouterGroupsAttr>:$groups,
                       OptionalAttr<FlatSymbolRefAttr>:$weightFactors,
                       OptionalAttr<F32Attr>:$tolerance);
  let results = (outs Moe_ExpertIds:$experts, Moe_Rows:$weights);
  let assemblyFormat = [{
    $input `router` $router `to` $moeLayer $scoring `renormalize` $renormalize
    `scale` $weightScale (`bias` $choiceBias^)? (`groups` $groups^)? (`factors` $weightFactors^)?
    (`tolerance` $tolerance^)? attr-dict `:` type($input) `->` type($experts) `,` type($weights)
  }];
}

def Moe_PredictOp : Moe_LayerOp<"predict"> {
  let summary = "Predicts the experts of a later layer from this layer's router input";
  let description = [{
    Applies the later layer's own router to this layer's router input; that layer is `ahead` MoE layers
    further on. It has no result: prefetch candidates only start reads, and only if the plan has a
    rule for the layer (`#moe.prefetch`). Those reads are its side effect.

    ```mlir
    moe.predict %n router <@layer1.router> of @layer1.experts ahead 1 : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_LinearAttr:$router, FlatSymbolRefAttr:$moeLayer,
                       I32Attr:$ahead);
  let assemblyFormat = [{
    $input `router` $router `of` $moeLayer `ahead` $ahead attr-dict `:` type($input)
  }];
}

def Moe_ExpertsOp : Moe_LayerOp<"experts", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "The weighted sum of each token's experts, in rank order";
  let description = [{
    Biases of gate, up and down are vectors of those of all experts, one after the other.

    ```mlir
    %e = moe.experts %n of @layer0.experts chosen %experts, %weights
      : tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_ExpertIds:$experts, Moe_Rows:$weights,
                       FlatSymbolRefAttr:$moeLayer, OptionalAttr<FlatSymbolRefAttr>:$gateBias,
                       OptionalAttr<FlatSymbolRefAttr>:$upBias,
                       OptionalAttr<FlatSymbolRefAttr>:$downBias);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $input `of` $moeLayer `chosen` $experts `,` $weights (`gate_bias` $gateBias^)?
    (`up_bias` $upBias^)? (`down_bias` $downBias^)? attr-dict
    `:` type($input) `,` type($experts) `,` type($weights)
  }];
}

def Moe_SharedExpertOp : Moe_LayerOp<"shared_expert", [Pure, SameOperandsAndResultType]> {
  let summary = "The network that every token uses in addition to its routed experts";
  let description = [{
    With a gate, its output is multiplied by sigmoid(gate x).

    ```mlir
    %s = moe.shared_expert %n network <silu, gate = <@g>, up = <@u>, down = <@d>> gate <@layer0.shared_gate>
      : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_GluAttr:$network, OptionalAttr<Moe_LinearAttr>:$gate);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$input `network` $network (`gate` $gate^)? attr-dict `:` type($input)";
}

def Moe_DenseOp : Moe_LayerOp<"dense", [Pure, SameOperandsAndResultType]> {
  let summary = "The network of a layer without routed experts";
  let description = [{
    ```mlir
    %d = moe.dense %n network <silu, gate = <@g>, up = <@u>, down = <@d>> : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_GluAttr:$network);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$input `network` $network attr-dict `:` type($input)";
}

def Moe_AddOp : Moe_Op<"add", [Pure, SameOperandsAndResultType]> {
  let summary = "a + scale * b: a residual connection, or the sum of two networks";
  let description = [{
    ```mlir
    %h1 = moe.add %h0, %a scale 1.0 : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$a, Moe_Rows:$b, F32Attr:$scale);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$a `,` $b `scale` $scale attr-dict `:` type($a)";
}

def Moe_ScaleOp : Moe_LayerOp<"scale", [Pure, SameOperandsAndResultType]> {
  let summary = "factor * x, times the only element of a weight if there is one";
  let description = [{
    ```mlir
    %h1 = moe.scale %h0 by 1.0 weight @layer0.output_scale : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, F32Attr:$factor, OptionalAttr<FlatSymbolRefAttr>:$weight);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$input `by` $factor (`weight` $weight^)? attr-dict `:` type($input)";
}

def Moe_HeadOp : Moe_LayerOp<"head", [Pure]> {
  let summary = "Logits: scale * (W x + b), with a soft cap c then c * tanh(logit / c)";
  let description = [{
    ```mlir
    %logits = moe.head %n linear <@embedding> scale 1.0 : tensor<?x64xf32> -> tensor<?x96xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_LinearAttr:$linear, F32Attr:$scale,
                       OptionalAttr<F32Attr>:$softCap);
  let results = (outs Moe_Rows:$logits);
  let assemblyFormat = [{
    $input `linear` $linear `scale` $scale (`soft_cap` $softCap^)? attr-dict
    `:` type($input) `->` type($logits)
  }];
}

#endif // MOE_OPS
