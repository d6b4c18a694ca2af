// The instructions of MoeScheduleOps.td that work on states, or between an attention or a recurrence
// and its projections.
#ifndef MOE_STATE_EXEC_OPS
#define MOE_STATE_EXEC_OPS

include "MoeScheduleOps.td"

def Moe_States : Resource<"::mlir::moe::StatesResource">;

def Moe_ExecConvolveOp
    : Moe_ExecOp<"convolve", [MemoryEffects<[MemRead<Moe_States>, MemWrite<Moe_States>]>]> {
  let summary = "dst = the causal convolution of src along the tokens; dst may be src";
  let description = [{
    ```mlir
    moe.exec.convolve %q to %q weight @layer0.query_taps slot @layer0.query_tail silu true
      : !moe.buffer<f32, 32>, !moe.buffer<f32, 32>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_Out:$dst, FlatSymbolRefAttr:$weight,
                       FlatSymbolRefAttr:$slot, BoolAttr:$silu);
  let assemblyFormat = [{
    $src `to` $dst `weight` $weight `slot` $slot `silu` $silu attr-dict `:` type($src) `,` type($dst)
  }];
}

def Moe_ExecUnitNormOp : Moe_ExecOp<"unit_norm"> {
  let summary = "Each run of `segment` elements divided by its length, in place";
  let description = [{
    ```mlir
    moe.exec.unit_norm %q epsilon 1.0e-6 segment 16 : !moe.buffer<f32, 32>
    ```
  }];
  let arguments = (ins Moe_InOut:$buffer, F32Attr:$epsilon, I32Attr:$segment);
  let assemblyFormat = "$buffer `epsilon` $epsilon `segment` $segment attr-dict `:` type($buffer)";
}

def Moe_ExecDecayOp : Moe_ExecOp<"decay"> {
  let summary = "dst = exp(-exp(logRate) * softplus(src + bias)); dst may be src";
  let description = [{
    ```mlir
    moe.exec.decay %a to %a rate @layer0.log_rate bias @layer0.decay_bias
      : !moe.buffer<f32, 4>, !moe.buffer<f32, 4>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_Out:$dst, FlatSymbolRefAttr:$logRate,
                       FlatSymbolRefAttr:$bias);
  let assemblyFormat = [{
    $src `to` $dst `rate` $logRate `bias` $bias attr-dict `:` type($src) `,` type($dst)
  }];
}

def Moe_ExecDeltaRuleOp
    : Moe_ExecOp<"delta_rule", [MemoryEffects<[MemRead<Moe_States>, MemWrite<Moe_States>]>]> {
  let summary = "The gated delta rule, token by token";
  let description = [{
    ```mlir
    moe.exec.delta_rule %q, %k, %v decay %a write %b to %o slot @layer0.state keys 2 heads 4 scale 0.25
      : !moe.buffer<f32, 32>, !moe.buffer<f32, 32>, !moe.buffer<f32, 64>, !moe.buffer<f32, 4>,
        !moe.buffer<f32, 4>, !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_In:$query, Moe_In:$key, Moe_In:$value, Moe_In:$decay, Moe_In:$write,
                       Moe_Out:$dst, FlatSymbolRefAttr:$slot, I32Attr:$keyHeads, I32Attr:$heads,
                       F32Attr:$scale);
  let assemblyFormat = [{
    $query `,` $key `,` $value `decay` $decay `write` $write `to` $dst `slot` $slot `keys` $keyHeads
    `heads` $heads `scale` $scale attr-dict `:` type($query) `,` type($key) `,` type($value) `,`
    type($decay) `,` type($write) `,` type($dst)
  }];
}

def Moe_ExecGateOp : Moe_ExecOp<"gate"> {
  let summary = "dst = sigmoid(gate) * src, or gate * src, elementwise; dst may be src or gate";
  let description = [{
    ```mlir
    moe.exec.gate %a by %g to %a sigmoid
      : !moe.buffer<f32, 64>, !moe.buffer<f32, 64>, !moe.buffer<f32, 64>
    ```
  }];
  let arguments = (ins Moe_In:$src, Moe_In:$gate, Moe_Out:$dst, Moe_GateKind:$kind);
  let assemblyFormat = [{
    $src `by` $gate `to` $dst $kind attr-dict `:` type($src) `,` type($gate) `,` type($dst)
  }];
}

#endif // MOE_STATE_EXEC_OPS
