// Decodes programs and their instructions.
#include "runtime/format/ManifestDecoder.h"

namespace moert {

Status ManifestDecoder::decodeStep(const fb::Step &step, Instruction &value) {
  switch (step.instruction_type()) {
  case fb::Instruction::Embed: {
    const fb::Embed &i = *step.instruction_as_Embed();
    value = EmbedInstruction{i.dst(), i.weight(), i.scale()};
    return {};
  }
  case fb::Instruction::Norm: {
    const fb::Norm &i = *step.instruction_as_Norm();
    NormKind kind = NormKind::kRms;
    MOERT_RETURN_IF_ERROR(decodeEnum(i.kind(), NormKind::kLayer, "norm kind", kind));
    value = NormInstruction{i.src(), i.dst(), i.weight(), i.bias(), kind, i.epsilon(), i.segment()};
    return {};
  }
  case fb::Instruction::Quantize: {
    const fb::Quantize &i = *step.instruction_as_Quantize();
    value = QuantizeInstruction{i.src(), i.dst()};
    return {};
  }
  case fb::Instruction::Linear: {
    const fb::Linear &i = *step.instruction_as_Linear();
    value = LinearInstruction{i.src(), i.dst(), i.weight(), i.bias()};
    return {};
  }
  case fb::Instruction::ApplyRope: {
    const fb::ApplyRope &i = *step.instruction_as_ApplyRope();
    value = RopeInstruction{i.buffer(), i.heads(), i.head_dim(), i.rope()};
    return {};
  }
  case fb::Instruction::StoreKv: {
    const fb::StoreKv &i = *step.instruction_as_StoreKv();
    value = StoreKvInstruction{i.key(), i.value(), i.slot()};
    return {};
  }
  case fb::Instruction::Attend: {
    const fb::Attend &i = *step.instruction_as_Attend();
    value = AttendInstruction{i.query(), i.dst(), i.slot(), i.heads(), i.window(), i.scale()};
    return {};
  }
  case fb::Instruction::Activate: {
    const fb::Activate &i = *step.instruction_as_Activate();
    Activation activation = Activation::kSilu;
    MOERT_RETURN_IF_ERROR(decodeEnum(i.activation(), Activation::kSilu, "activation", activation));
    value = ActivateInstruction{i.gate(), i.up(), i.dst(), activation};
    return {};
  }
  case fb::Instruction::Route: {
    const fb::Route &i = *step.instruction_as_Route();
    RouterScoring scoring = RouterScoring::kSoftmaxThenTopK;
    bool renormalize = false;
    MOERT_RETURN_IF_ERROR(
        decodeEnum(i.scoring(), RouterScoring::kSoftmaxThenTopK, "router scoring", scoring));
    MOERT_RETURN_IF_ERROR(decodeFlag(i.renormalize(), "renormalize", renormalize));
    value = RouteInstruction{i.scores(), i.experts(), i.weights(), i.moe_layer(),
                             scoring,    i.top_k(),   renormalize, i.weight_scale()};
    return {};
  }
  case fb::Instruction::Experts: {
    const fb::Experts &i = *step.instruction_as_Experts();
    value = ExpertsInstruction{i.src(),      i.experts(), i.weights(), i.dst(),    i.moe_layer(),
                               i.gathered(), i.gate(),    i.up(),      i.hidden(), i.ranks()};
    return {};
  }
  case fb::Instruction::Predict: {
    const fb::Predict &i = *step.instruction_as_Predict();
    value = PredictInstruction{i.src(), i.scores(), i.weight(), i.bias(), i.moe_layer(), i.ahead()};
    return {};
  }
  case fb::Instruction::Add: {
    const fb::Add &i = *step.instruction_as_Add();
    value = AddInstruction{i.a(), i.b(), i.dst(), i.scale()};
    return {};
  }
  case fb::Instruction::GateRows: {
    const fb::GateRows &i = *step.instruction_as_GateRows();
    value = GateRowsInstruction{i.src(), i.gate(), i.dst()};
    return {};
  }
  case fb::Instruction::Head: {
    const fb::Head &i = *step.instruction_as_Head();
    value = HeadInstruction{i.src(), i.weight(), i.bias(), i.scale()};
    return {};
  }
  case fb::Instruction::NONE:
    break;
  }
  return invalidInput("unknown instruction ", uint32_t(step.instruction_type()),
                      ", this reads 1 to ", uint32_t(fb::Instruction::MAX));
}

Status ManifestDecoder::decodeProgram(const fb::Program &program, Program &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*program.name(), value.name));
  value.arenaBytesPerToken = program.arena_bytes_per_token();
  MOERT_RETURN_IF_ERROR(decodeEach(
      *program.buffers(), sizeof(fb::Buffer), value.buffers, "buffer",
      [this](const fb::Buffer &buffer, Buffer &out) {
        out = {{}, buffer.width(), buffer.group(), buffer.offset(), buffer.bytes_per_token()};
        return decodeEnum(buffer.kind(), BufferKind::kQuantized, "buffer kind", out.kind);
      }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*program.steps(), sizeof(uint32_t), value.instructions, "instruction",
                 [this](const fb::Step &step, Instruction &out) { return decodeStep(step, out); }));
  return decodeScalars(*program.layers(), value.layers);
}

} // namespace moert
