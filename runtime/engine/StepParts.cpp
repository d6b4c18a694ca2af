#include "runtime/engine/StepParts.h"

#include <algorithm>

namespace moert {

PartNumbers weightBytesOf(const Program &program, const std::vector<ResidentWeight> &residents) {
  PartNumbers bytes{};
  for (const Instruction &instruction : program.instructions) {
    uint64_t &sum = bytes[static_cast<size_t>(partOf(instruction))];
    if (std::holds_alternative<PredictInstruction>(instruction))
      continue;
    describe(instruction, [&]<typename T>(FieldRole role, const char *, const T &field) {
      if constexpr (std::is_same_v<T, int32_t>) {
        if (!isWeight(role) || field == kNone)
          return;
        const ResidentWeight &resident = residents[static_cast<size_t>(field)];
        const uint64_t rows = role == FieldRole::kTable ? resident.shape.rows : 1;
        sum += resident.bytes / std::max<uint64_t>(1, rows);
      }
    });
  }
  return bytes;
}

uint64_t partOfTime(uint64_t ns, uint64_t bytes, uint64_t bytesLeft) {
  if (bytes >= bytesLeft)
    return ns;
  const double fraction = static_cast<double>(bytes) / static_cast<double>(bytesLeft);
  return std::min(ns, static_cast<uint64_t>(static_cast<double>(ns) * fraction));
}

} // namespace moert
