#include "compiler/calibrate/BufferUses.h"

namespace moert {

BufferUses usesOf(const Instruction &instruction) {
  BufferUses uses;
  if (std::holds_alternative<PredictInstruction>(instruction))
    return uses;
  describe(instruction, [&]<typename T>(FieldRole role, const char *, const T &field) {
    if constexpr (std::is_same_v<T, int32_t>) {
      if (field == kNone)
        return;
      if (isWeight(role))
        uses.weights.push_back(field);
      else if (role == FieldRole::kRead || role == FieldRole::kReadInPlace)
        uses.reads.push_back(field);
      else
        uses.writes.push_back(field);
      if (role == FieldRole::kUpdate)
        uses.reads.push_back(field);
    }
  });
  return uses;
}

std::vector<int32_t> liveBuffers(const Program &program, size_t boundary) {
  enum class Fate : uint8_t { kUnknown, kLive, kOverwritten };
  std::vector<Fate> fates(program.buffers.size(), Fate::kUnknown);
  auto settle = [&fates](const std::vector<int32_t> &buffers, Fate fate) {
    for (int32_t buffer : buffers)
      if (fates[static_cast<size_t>(buffer)] == Fate::kUnknown)
        fates[static_cast<size_t>(buffer)] = fate;
  };
  for (size_t i = boundary; i < program.instructions.size(); ++i) {
    BufferUses uses = usesOf(program.instructions[i]);
    settle(uses.reads, Fate::kLive);
    settle(uses.writes, Fate::kOverwritten);
  }
  std::vector<int32_t> live;
  for (size_t i = 0; i < fates.size(); ++i)
    if (fates[i] == Fate::kLive)
      live.push_back(static_cast<int32_t>(i));
  return live;
}

} // namespace moert
