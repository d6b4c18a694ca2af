#include "runtime/engine/StepParts.h"

#include "runtime/engine/BufferUses.h"

#include <algorithm>

namespace moert {

// In the order of Instruction; products are classified below.
static constexpr StepPart kPartOfInstruction[] = {
    StepPart::kEmbedding, StepPart::kNorms,     StepPart::kQuantizing, StepPart::kDense,
    StepPart::kAttention, StepPart::kAttention, StepPart::kAttention,  StepPart::kDense,
    StepPart::kRouter,    StepPart::kExperts,   StepPart::kPrefetches, StepPart::kSums,
    StepPart::kDense,     StepPart::kHead};
static_assert(std::size(kPartOfInstruction) == std::variant_size_v<Instruction>);

std::vector<StepPart> partsOf(const Program &program) {
  const std::vector<Instruction> &all = program.instructions;
  auto isLinear = [&](size_t i) { return std::holds_alternative<LinearInstruction>(all[i]); };
  std::vector<StepPart> parts;
  for (const Instruction &instruction : all)
    parts.push_back(kPartOfInstruction[instruction.index()]);
  for (size_t at = 0; at < all.size(); ++at) {
    if (std::holds_alternative<AttendInstruction>(all[at])) {
      for (size_t i = at; i-- > 0 && program.layers[i] == program.layers[at];)
        if (isLinear(i))
          parts[i] = StepPart::kAttentionProducts;
      for (size_t i = at; i < all.size(); ++i)
        if (isLinear(i)) {
          parts[i] = StepPart::kAttentionProducts;
          break;
        }
    } else if (const auto *route = std::get_if<RouteInstruction>(&all[at])) {
      for (size_t i = at; i-- > 0;)
        if (isLinear(i) && std::get<LinearInstruction>(all[i]).dst == route->scores) {
          parts[i] = StepPart::kRouter;
          break;
        }
    }
  }
  return parts;
}

PartNumbers weightBytesOf(const Program &program, const std::vector<ResidentWeight> &residents) {
  const std::vector<StepPart> parts = partsOf(program);
  PartNumbers bytes{};
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == StepPart::kPrefetches)
      continue;
    for (int32_t weight : usesOf(program.instructions[i]).weights) {
      const ResidentWeight &resident = residents[static_cast<size_t>(weight)];
      uint64_t rows = parts[i] == StepPart::kEmbedding ? resident.shape.rows : 1;
      bytes[static_cast<size_t>(parts[i])] += resident.bytes / std::max<uint64_t>(1, rows);
    }
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
