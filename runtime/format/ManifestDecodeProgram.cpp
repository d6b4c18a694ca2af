// Decodes programs and their instructions.
#include "runtime/format/ManifestDecoder.h"

#include <bit>
#include <utility>

namespace moert {

static void keepFirst(Status &kept, Status next) {
  if (kept.isOk())
    kept = std::move(next);
}

Status ManifestDecoder::decodeStep(const fb::Step &step, Instruction &value) {
  if (step.instruction() >= kInstructionKinds)
    return invalidInput("unknown instruction ", uint32_t(step.instruction()), ", this reads 0 to ",
                        kInstructionKinds - 1);
  value = emptyInstruction(step.instruction());
  std::vector<uint32_t> words;
  MOERT_RETURN_IF_ERROR(decodeScalars(*step.fields(), words));
  size_t fields = 0;
  describe(value, [&](FieldRole, const char *, auto &) { ++fields; });
  if (words.size() != fields)
    return invalidInput(nameOf(value), " has ", words.size(), " fields, expected ", fields);
  Status status;
  auto next = words.begin();
  describe(value, [&]<typename T>(FieldRole, const char *name, T &field) {
    const uint32_t word = *next++;
    if constexpr (std::is_same_v<T, float>)
      field = std::bit_cast<float>(word);
    else if constexpr (std::is_same_v<T, bool>)
      keepFirst(status, decodeFlag(word, name, field));
    else if constexpr (std::is_enum_v<T>)
      keepFirst(status, decodeEnum(word, kLast<T>, name, field));
    else
      field = static_cast<T>(word);
  });
  return status;
}

Status ManifestDecoder::decodeProgram(const fb::Program &program, Program &value) {
  MOERT_RETURN_IF_ERROR(decodeString(*program.name(), value.name));
  value.arenaBytesPerToken = program.arena_bytes_per_token();
  MOERT_RETURN_IF_ERROR(decodeEach(
      *program.buffers(), value.buffers, "buffer", [this](const fb::Buffer &buffer, Buffer &out) {
        out = {{}, buffer.width(), buffer.group(), buffer.offset(), buffer.bytes_per_token()};
        return decodeEnum(buffer.kind(), kLastBufferKind, "buffer kind", out.kind);
      }));
  MOERT_RETURN_IF_ERROR(
      decodeEach(*program.steps(), value.instructions, "instruction",
                 [this](const fb::Step &step, Instruction &out) { return decodeStep(step, out); }));
  return decodeScalars(*program.layers(), value.layers);
}

} // namespace moert
