// The dialect `moe`: a Mixture-of-Experts model from import to schedule.
#ifndef MOE_DIALECT
#define MOE_DIALECT

include "mlir/IR/OpBase.td"

def Moe_Dialect : Dialect {
  let name = "moe";
  let cppNamespace = "::mlir::moe";
  let summary = "Mixture-of-Experts models, from layers to the schedule that a runtime executes";
  let description = [{
    One module is one model. `moe.program @decode` and `@prefill` hold one op per instruction of the
    runtime (runtime/format/Instruction.h), in value form: they take rows and give new ones. They
    refer to symbols of the module: `moe.weight`, `moe.moe_layer`, `moe.kv_slot`, `moe.state_slot` and
    `moe.rope_table`. A weight names a tensor of the checkpoint and never holds its numbers, so a
    module stays small for any size of model.

    An instruction that belongs to one layer of the model carries its number as `moe.layer`, an i32;
    profiles report by this number. `moe.offsets`, an array of i64 from moe-bufferize, says where in
    the arena it puts what it writes: with a batch of T tokens a row of b bytes at offset o occupies
    bytes [o * T, (o + b) * T). Offsets are those of the rows that it writes, then of its scratch,
    the optional last; a row that it updates stays where it is.

    Attributes of the module describe the whole model:

      - `moe.model`, a `#moe.model`: facts from the checkpoint's config. Required.
      - `moe.quantizer`, a `#moe.quantizer`; `moe.measured`, a `#moe.measured`; and `moe.widths_by`, a
        string: what chose the widths. Decided before the passes; without a quantizer, assign-bits
        rounds to nearest.
      - `moe.expert_bits`, `moe.resident_bits` and, if they were given, `moe.expert_down_bits` and
        `moe.head_bits`, strings: the options of assign-bits; and `moe.kv_bits`, a string, where keys
        and values are not f32.
      - `moe.chat`, a `#moe.chat`, and `moe.sampling`, a `#moe.sampling`: what the checkpoint has for conversations;
        and `moe.class_names`, a string: the names of a vision model's classes as a JSON list.
      - `moe.artifact`, a `#moe.artifact`, and `moe.quick_loss`, a `#moe.quick_loss`: of a module that was read from an
        artifact. Its weights have their formats; assign-bits refuses it.
      - `moe.page_bytes`, an i64, and `moe.plans`, an array of `#moe.plan`: from make-plans.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasCanonicalizer = 1;
}

#endif // MOE_DIALECT
