// Ops of the dialect `moe` whose sequences keep a state of fixed size, whatever the context's length.
#ifndef MOE_STATE_OPS
#define MOE_STATE_OPS

include "MoeOps.td"

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

def Moe_DeltaNetOp : Moe_LayerOp<"delta_net", [SameOperandsAndResultType]> {
  let summary = "The gated delta rule, with convolutions before it and projections included";
  let description = [{
    Yang et al. 2024, arXiv 2412.06464. Query, key and value are products of the normed input, pass
    through a causal convolution and silu; query and key are then divided by their lengths, per key
    head. Each head's matrix in the slot forgets by exp(-exp(rate) * softplus(decay x + bias)) and is
    written with sigmoid(write x). What the query reads from it is normed per head and multiplied by
    silu(gate x). Head h uses key head h / (heads / keys).

    Has a side effect: it updates the state slots.

    ```mlir
    %a = moe.delta_net %n query <<@layer0.query>, @layer0.query_taps, @layer0.query_tail>
           key <<@layer0.key>, @layer0.key_taps, @layer0.key_tail>
           value <<@layer0.value>, @layer0.value_taps, @layer0.value_tail>
           gate <@layer0.gate> decay <@layer0.decay> rate @layer0.log_rate bias @layer0.decay_bias
           write <@layer0.write> norm <rms, epsilon = 1.0e-6 : f32, @layer0.output_norm>
           output <@layer0.output> state @layer0.state keys 2 heads 4 epsilon 1.0e-6
         : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_ConvolvedAttr:$query, Moe_ConvolvedAttr:$key,
                       Moe_ConvolvedAttr:$value, Moe_LinearAttr:$gate, Moe_LinearAttr:$decay,
                       FlatSymbolRefAttr:$logRate, FlatSymbolRefAttr:$decayBias,
                       Moe_LinearAttr:$write, Moe_NormAttr:$outputNorm, Moe_LinearAttr:$output,
                       FlatSymbolRefAttr:$state, I32Attr:$keyHeads, I32Attr:$heads,
                       F32Attr:$epsilon);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $input `query` $query `key` $key `value` $value `gate` $gate `decay` $decay `rate` $logRate
    `bias` $decayBias `write` $write `norm` $outputNorm `output` $output `state` $state
    `keys` $keyHeads `heads` $heads `epsilon` $epsilon attr-dict `:` type($input)
  }];
}

def Moe_ShortConvolutionOp : Moe_LayerOp<"short_convolution", [SameOperandsAndResultType]> {
  let summary = "output(after x * convolution(before x * value x)), products elementwise";
  let description = [{
    Has a side effect: it updates the state slot.

    ```mlir
    %a = moe.short_convolution %n before <@layer0.before> value <<@layer0.value>, @layer0.taps, @layer0.tail>
           after <@layer0.after> output <@layer0.output> : tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$input, Moe_LinearAttr:$before, Moe_ConvolvedAttr:$value,
                       Moe_LinearAttr:$after, Moe_LinearAttr:$output);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $input `before` $before `value` $value `after` $after `output` $output attr-dict
    `:` type($input)
  }];
}

#endif // MOE_STATE_OPS
