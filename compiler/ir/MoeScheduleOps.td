// Ops of the dialect `moe` on the level of the schedule: programs, their buffers, and one op per
// instruction of runtime/format/Instruction.h, with the same fields under the same names.
//
// Instruction.h declares what each operand and attribute is for; BuildProgram converts an op to its
// instruction by that declaration, and the verifier of a program applies the format's rules to the
// result. Operands are in the order of the declaration, and attributes have the fields' names.
#ifndef MOE_SCHEDULE_OPS
#define MOE_SCHEDULE_OPS

include "MoeStateOps.td"

def Moe_ProgramOp : Moe_SymbolOp<"program", [
    IsolatedFromAbove, SingleBlock, NoTerminator,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A straight list of instructions for one step of a batch of tokens";
  let description = [{
    Buffers first, then instructions; `moe.exec.head` is the last one and the only one of its kind.
    Where buffers have offsets, no instruction reads a buffer that another instruction has
    overwritten since, and an instruction overwrites its input only where Instruction.h allows it. The
    verifier proves both by walking through the list, independent of how the offsets were found.

    ```mlir
    moe.program @decode {
      %h = moe.buffer at 0 : !moe.buffer<f32, 64>
      moe.exec.embed %h weight @embedding scale 1.0 : !moe.buffer<f32, 64>
      moe.exec.head %h weight @embedding scale 1.0 : !moe.buffer<f32, 64>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name $body attr-dict";
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name)>];
}

def Moe_BufferOp : Moe_Op<"buffer"> {
  let summary = "A range of a program's arena";
  let description = [{
    With a batch of T tokens the buffer occupies bytes [offset * T, (offset + bytesPerToken) * T);
    the offset, a multiple of 64, is absent until plan-memory has run. In a function the buffers
    are in the order in which lowering uses them.

    ```mlir
    %h = moe.buffer at 256 : !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Moe_BufferType:$buffer);
  let assemblyFormat = "(`at` $offset^)? attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

def Moe_KvCache : Resource<"::mlir::moe::KvCacheResource">;
def Moe_Logits : Resource<"::mlir::moe::LogitsResource">;
def Moe_Prefetches : Resource<"::mlir::moe::PrefetchesResource">;

class Moe_ExecOp<string mnemonic, list<Trait> traits = []>
    : Moe_Op<"exec." # mnemonic, !listconcat([HasParent<"ProgramOp">], traits)>;

def Moe_In : Arg<Moe_BufferType, "read", [MemRead]>;
def Moe_Out : Arg<Moe_BufferType, "written", [MemWrite]>;
def Moe_InOut : Arg<Moe_BufferType, "read and written", [MemRead, MemWrite]>;
/// Written and read again by the same instruction only.
def Moe_Scratch : Arg<Moe_BufferType, "scratch", [MemWrite]>;

def Moe_ExecEmbedOp : Moe_ExecOp<"embed"> {
  let summary = "dst = scale * row `token` of the weight";
  let description = [{
    ```mlir
    moe.exec.embed %h weight @embedding scale 1.0 : !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_Out:$dst, FlatSymbolRefAttr:$weight, F32Attr:$scale);
  let assemblyFormat = "$dst `weight` $weight `scale` $scale attr-dict `:` type($dst)";
}

def Moe_ExecNormOp : Moe_ExecOp<"norm"> {
  let summary = "Each run of `segment` elements normalized separately; dst may be src";
  let description = [{
    ```mlir
    moe.exec.norm %h to %n weight @norm rms epsilon 1.0e-6 segment 64
      : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_Out:$dst, OptionalAttr<FlatSymbolRefAttr>:$weight,
                       OptionalAttr<FlatSymbolRefAttr>:$bias, Moe_NormKind:$kind, F32Attr:$epsilon,
                       I32Attr:$segment);
  let assemblyFormat = [{
    $src `to` $dst (`weight` $weight^)? (`bias` $bias^)? $kind `epsilon` $epsilon `segment` $segment
    attr-dict `:` type($src) `,` type($dst)
  }];
}

def Moe_ExecQuantizeOp : Moe_ExecOp<"quantize"> {
  let summary = "dst = src, or its Hadamard transform, as int8 with a scale per group";
  let description = [{
    ```mlir
    moe.exec.quantize %n to %q : !moe.buffer<f32, 64>, !moe.buffer<quantized, 64, group = 32>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_Out:$dst);
  let assemblyFormat = "$src `to` $dst attr-dict `:` type($src) `,` type($dst)";
}

def Moe_ExecLinearOp : Moe_ExecOp<"linear"> {
  let summary = "dst = W src + b; src is quantized where the weight is";
  let description = [{
    ```mlir
    moe.exec.linear %q to %k weight @layer0.key
      : !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 32>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_Out:$dst, FlatSymbolRefAttr:$weight,
                       OptionalAttr<FlatSymbolRefAttr>:$bias,
                       DefaultValuedAttr<Moe_ProductRole, "::mlir::moe::ProductRole::kDense">:$role,
                       UnitAttr:$joined);
  let assemblyFormat = [{
    $src `to` $dst `weight` $weight (`bias` $bias^)? (`for` $role^)? (`joined` $joined^)? attr-dict
    `:` type($src) `,` type($dst)
  }];
}

def Moe_ExecLinearHeadsOp : Moe_ExecOp<"linear_heads"> {
  let summary = "dst of a head = the last `kept` elements of its src, then W of the head * the others";
  let description = [{
    ```mlir
    moe.exec.linear_heads %q to %r weight @layer0.key_up heads 4 kept 16
      : !moe.buffer<f32, 160>, !moe.buffer<f32, 192>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_Out:$dst, FlatSymbolRefAttr:$weight, I32Attr:$heads,
                       I32Attr:$kept);
  let assemblyFormat = [{
    $src `to` $dst `weight` $weight `heads` $heads `kept` $kept attr-dict
    `:` type($src) `,` type($dst)
  }];
}

def Moe_ExecRopeOp : Moe_ExecOp<"rope"> {
  let summary = "Rotates `heads` heads of `headDim` elements in place";
  let description = [{
    ```mlir
    moe.exec.rope %k heads 2 of 16 by @rope0 : !moe.buffer<f32, 32>
    ```
  }];
  let arguments = (ins Moe_InOut:$buffer, I32Attr:$heads, I32Attr:$headDim, FlatSymbolRefAttr:$rope);
  let assemblyFormat = "$buffer `heads` $heads `of` $headDim `by` $rope attr-dict `:` type($buffer)";
}

def Moe_ExecStoreKvOp
    : Moe_ExecOp<"store_kv", [MemoryEffects<[MemWrite<Moe_KvCache>]>]> {
  let summary = "Writes the batch's keys and values into a slot of the KV cache";
  let description = [{
    In a slot with `value` 0, a stored key is the key followed by the value.

    ```mlir
    moe.exec.store_kv %k, %v slot @layer0.kv : !moe.buffer<f32, 32>, !moe.buffer<f32, 32>
    ```
  }];
  let arguments = (ins Moe_In:$key, Moe_In:$value, FlatSymbolRefAttr:$slot);
  let assemblyFormat = "$key `,` $value `slot` $slot attr-dict `:` type($key) `,` type($value)";
}

def Moe_ExecAttendOp : Moe_ExecOp<"attend", [MemoryEffects<[MemRead<Moe_KvCache>]>]> {
  let summary = "dst = attention of the query over a slot's positions up to the token's own";
  let description = [{
    `window` 0: all positions. `sinks`: a score of each head that joins the denominator only.
    `chunked`: those of the token's own chunk of `window` positions.

    ```mlir
    moe.exec.attend %q to %c slot @layer0.kv heads 4 window 0 scale 0.25
      : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_In:$query, Moe_Out:$dst, FlatSymbolRefAttr:$slot, I32Attr:$heads,
                       I32Attr:$window, F32Attr:$scale, OptionalAttr<FlatSymbolRefAttr>:$sinks,
                       UnitAttr:$chunked);
  let assemblyFormat = [{
    $query `to` $dst `slot` $slot `heads` $heads `window` $window `scale` $scale (`sinks` $sinks^)?
    (`chunked` $chunked^)? attr-dict `:` type($query) `,` type($dst)
  }];
}

def Moe_ExecActivateOp : Moe_ExecOp<"activate"> {
  let summary = "dst = activation(gate, up); dst may be gate or up";
  let description = [{
    moert::GluActivation defines the activations and their numbers.

    ```mlir
    moe.exec.activate %g, %u to %g silu
      : !moe.buffer<f32, 96>, !moe.buffer<f32, 96>, !moe.buffer<f32, 96>
    ```
  }];
  let arguments = (ins Moe_In:$gate, Moe_In:$up, Moe_Out:$dst, Moe_Activation:$activation,
                       OptionalAttr<F32Attr>:$alpha, OptionalAttr<F32Attr>:$limit);
  let assemblyFormat = [{
    $gate `,` $up `to` $dst $activation (`alpha` $alpha^ `limit` $limit)? attr-dict `:` type($gate) `,` type($up) `,` type($dst)
  }];
}

def Moe_ExecClampOp : Moe_ExecOp<"clamp"> {
  let summary = "Clamps a buffer to [-limit, limit] in place";
  let description = [{
    ```mlir
    moe.exec.clamp %q limit 8.0 : !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_InOut:$buffer, F32Attr:$limit);
  let assemblyFormat = "$buffer `limit` $limit attr-dict `:` type($buffer)";
}

def Moe_ExecScaleByPositionOp : Moe_ExecOp<"scale_by_position"> {
  let summary = "A buffer times 1 + scale * ln(1 + floor((position + 1) / period)), in place";
  let description = [{
    ```mlir
    moe.exec.scale_by_position %q scale 0.1 period 8192 : !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_InOut:$buffer, F32Attr:$scale, I32Attr:$period);
  let assemblyFormat = "$buffer `scale` $scale `period` $period attr-dict `:` type($buffer)";
}

def Moe_ExecScaleInputOp : Moe_ExecOp<"scale_input"> {
  let summary = "dst = weights * src; then the weights are 1";
  let description = [{
    ```mlir
    moe.exec.scale_input %n by %w to %s
      : !moe.buffer<f32, 64>, !moe.buffer<f32, 1>, !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_InOut:$weights, Moe_Out:$dst);
  let assemblyFormat = [{
    $src `by` $weights `to` $dst attr-dict `:` type($src) `,` type($weights) `,` type($dst)
  }];
}

def Moe_ExecRouteOp : Moe_ExecOp<"route"> {
  let summary = "The chosen experts and their weights, best first, from the scores of all experts";
  let description = [{
    ```mlir
    moe.exec.route %s to %e, %w of @layer0.experts softmax_then_top_k renormalize true scale 1.0
      : !moe.buffer<f32, 8>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>
    moe.exec.route %s to %e, %w of @layer0.experts sigmoid renormalize true scale 2.5
        bias @layer0.router.choice_bias groups 4 kept 2 by two_largest
      : !moe.buffer<f32, 8>, !moe.buffer<i32, 2>, !moe.buffer<f32, 2>
    ```
  }];
  let arguments = (ins Moe_In:$scores, Moe_Out:$experts, Moe_Out:$weights,
                       FlatSymbolRefAttr:$moeLayer, Moe_RouterScoring:$scoring,
                       BoolAttr:$renormalize, F32Attr:$weightScale,
                       OptionalAttr<FlatSymbolRefAttr>:$choiceBias, OptionalAttr<I32Attr>:$groups,
                       OptionalAttr<I32Attr>:$keptGroups, OptionalAttr<Moe_GroupScore>:$groupScore,
                       OptionalAttr<FlatSymbolRefAttr>:$weightFactors,
                       OptionalAttr<F32Attr>:$tolerance, UnitAttr:$beginsReads);
  let assemblyFormat = [{
    $scores `to` $experts `,` $weights `of` $moeLayer $scoring `renormalize` $renormalize
    `scale` $weightScale (`bias` $choiceBias^)? (`groups` $groups^ `kept` $keptGroups `by` $groupScore)?
    (`factors` $weightFactors^)? (`tolerance` $tolerance^)? (`begins_reads` $beginsReads^)? attr-dict
    `:` type($scores) `,` type($experts) `,` type($weights)
  }];
}

def Moe_ExecPredictOp : Moe_ExecOp<"predict", [MemoryEffects<[MemWrite<Moe_Prefetches>]>]> {
  let summary = "Gives prefetch candidates of a later layer to the cache, if the plan has a rule for it";
  let description = [{
    The scores are scratch: no other instruction reads them.

    ```mlir
    moe.exec.predict %n to %s weight @layer1.router of @layer1.experts ahead 1
      : !moe.buffer<f32, 64>, !moe.buffer<f32, 8>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_Scratch:$scores, FlatSymbolRefAttr:$weight,
                       OptionalAttr<FlatSymbolRefAttr>:$bias, FlatSymbolRefAttr:$moeLayer,
                       I32Attr:$ahead, UnitAttr:$joined, UnitAttr:$beginsReads);
  let assemblyFormat = [{
    $src `to` $scores `weight` $weight (`bias` $bias^)? `of` $moeLayer `ahead` $ahead
    (`joined` $joined^)? (`begins_reads` $beginsReads^)? attr-dict
    `:` type($src) `,` type($scores)
  }];
}

def Moe_ExecExpertsOp : Moe_ExecOp<"experts"> {
  let summary = "dst = sum over ranks, ascending, of weights[rank] * expert(src)";
  let description = [{
    Instruction.h (ExpertsInstruction) defines the scratch buffers: the rows gathered for an expert, its
    gate and up products, the quantized input of down (if the experts are quantized) and the results
    by rank. Biases are vectors of those of all experts, one after the other.

    ```mlir
    moe.exec.experts %q to %d of @layer0.experts chosen %e, %w
        scratch gathered %x gate %g up %u ranks %r hidden %y
      : !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 64>, !moe.buffer<i32, 2>,
        !moe.buffer<f32, 2>, !moe.buffer<quantized, 64, group = 32>, !moe.buffer<f32, 96>,
        !moe.buffer<f32, 96>, !moe.buffer<f32, 128>, !moe.buffer<quantized, 96, group = 32>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_In:$experts, Moe_In:$weights, Moe_Out:$dst,
                       FlatSymbolRefAttr:$moeLayer, Moe_Scratch:$gathered, Moe_Scratch:$gate,
                       Moe_Scratch:$up,
                       Arg<Optional<Moe_BufferType>, "scratch", [MemWrite]>:$hidden,
                       Moe_Scratch:$ranks, OptionalAttr<FlatSymbolRefAttr>:$gateBias,
                       OptionalAttr<FlatSymbolRefAttr>:$upBias,
                       OptionalAttr<FlatSymbolRefAttr>:$downBias);
  let assemblyFormat = [{
    $src `to` $dst `of` $moeLayer `chosen` $experts `,` $weights `scratch` `gathered` $gathered
    `gate` $gate `up` $up `ranks` $ranks (`hidden` $hidden^)? (`gate_bias` $gateBias^)?
    (`up_bias` $upBias^)? (`down_bias` $downBias^)? attr-dict
    `:` type($src) `,` type($dst) `,` type($experts) `,` type($weights) `,` type($gathered) `,`
    type($gate) `,` type($up) `,` type($ranks) (`,` type($hidden)^)?
  }];
}

def Moe_ExecAddOp : Moe_ExecOp<"add"> {
  let summary = "dst = a + scale * b; dst may be a or b";
  let description = [{
    ```mlir
    moe.exec.add %h, %a to %h scale 1.0
      : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_In:$a, Moe_In:$b, Moe_Out:$dst, F32Attr:$scale);
  let assemblyFormat = [{
    $a `,` $b `to` $dst `scale` $scale attr-dict `:` type($a) `,` type($b) `,` type($dst)
  }];
}

def Moe_ExecScaleOp : Moe_ExecOp<"scale"> {
  let summary = "dst = factor * src, times the only element of a weight if there is one; dst may be src";
  let description = [{
    ```mlir
    moe.exec.scale %h to %h weight @layer0.output_scale factor 1.0
      : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_Out:$dst, OptionalAttr<FlatSymbolRefAttr>:$weight,
                       F32Attr:$factor);
  let assemblyFormat = [{
    $src `to` $dst (`weight` $weight^)? `factor` $factor attr-dict `:` type($src) `,` type($dst)
  }];
}

def Moe_ExecGateRowsOp : Moe_ExecOp<"gate_rows"> {
  let summary = "dst = sigmoid(gate[1]) * src; dst may be src";
  let description = [{
    ```mlir
    moe.exec.gate_rows %s by %g to %s
      : !moe.buffer<f32, 64>, !moe.buffer<f32, 1>, !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_In:$gate, Moe_Out:$dst);
  let assemblyFormat = [{
    $src `by` $gate `to` $dst attr-dict `:` type($src) `,` type($gate) `,` type($dst)
  }];
}

def Moe_ExecHeadOp : Moe_ExecOp<"head", [MemoryEffects<[MemWrite<Moe_Logits>]>]> {
  let summary = "Logits of the tokens whose logits are requested: scale * (W src + b); ends the program";
  let description = [{
    With a soft cap c, then c * tanh(logit / c).

    ```mlir
    moe.exec.head %q weight @head scale 1.0 : !moe.buffer<quantized, 64, group = 32>
    ```
  }];
  let arguments = (ins Moe_In:$src, FlatSymbolRefAttr:$weight,
                       OptionalAttr<FlatSymbolRefAttr>:$bias, F32Attr:$scale,
                       OptionalAttr<F32Attr>:$softCap);
  let assemblyFormat = [{
    $src `weight` $weight (`bias` $bias^)? `scale` $scale (`soft_cap` $softCap^)? attr-dict
    `:` type($src)
  }];
}

#endif // MOE_SCHEDULE_OPS
