// The dialect `moe`: a Mixture-of-Experts model from import to schedule.
#ifndef MOE_DIALECT
#define MOE_DIALECT

include "mlir/IR/OpBase.td"

def Moe_Dialect : Dialect {
  let name = "moe";
  let cppNamespace = "::mlir::moe";
  let summary = "Mixture-of-Experts models, from layers to the schedule that a runtime executes";
  let description = [{
    One module is one model, on two levels.

    *Layers.* `func.func @decode` and `@prefill` hold one op per part of a layer (`moe.attention`,
    `moe.experts`, ...) on tensors of one row per token, `tensor<?xHxf32>`. They refer to symbols of
    the module: `moe.weight`, `moe.moe_layer`, `moe.kv_slot` and `moe.rope`. A weight names a tensor
    of the checkpoint and never holds its numbers, so a module stays small for any size of model.

    *Schedule.* `moe.program @decode` and `@prefill` hold one `moe.execute` op per instruction of the
    runtime (runtime/format/Schedule.h), on `!moe.buffer` values that are ranges of an arena.

    Ops on layers and instructions that belong to one layer of the model carry its number as
    `moe.layer`, an i32; profiles report by this number.

    Attributes of the module describe the whole model:

      - `moe.model`, a `#moe.model`: facts from the checkpoint's config. Required.
      - `moe.quantizer`, a `#moe.quantizer`; `moe.measured`, a `#moe.measured`; and `moe.widths_by`, a
        string: what chose the widths. Decided before the passes; without a quantizer, assign-bits
        rounds to nearest.
      - `moe.expert_bits`, `moe.resident_bits` and, if they were given, `moe.expert_down_bits` and
        `moe.head_bits`, strings: the options of assign-bits; and `moe.kv_bits`, a string, where keys
        and values are not f32.
      - `moe.page_bytes`, an i64, and `moe.plans`, an array of `#moe.plan`: from make-plans.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

#endif // MOE_DIALECT
