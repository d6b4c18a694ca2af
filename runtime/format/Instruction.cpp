#include "runtime/format/Instruction.h"

#include <utility>

namespace moert {

template <size_t... kNumbers>
static Instruction emptyInstruction(size_t number, std::index_sequence<kNumbers...>) {
  Instruction made;
  ((number == kNumbers ? void(made.emplace<kNumbers>()) : void()), ...);
  return made;
}

Instruction emptyInstruction(size_t number) {
  return emptyInstruction(number, std::make_index_sequence<kInstructionKinds>());
}

static constexpr StepPart partOf(ProductRole role) {
  switch (role) {
  case ProductRole::kAttention:
    return StepPart::kAttentionProducts;
  case ProductRole::kRouter:
    return StepPart::kRouter;
  case ProductRole::kDense:
    break;
  }
  return StepPart::kDense;
}

const char *nameOf(const Instruction &instruction) {
  const char *name = "";
  visitInstruction(instruction, [&](const auto &i) { name = i.kName; });
  return name;
}

StepPart partOf(const Instruction &instruction) {
  StepPart part = StepPart::kDense;
  visitInstruction(instruction, [&](const auto &i) {
    if constexpr (requires { i.kPart; })
      part = i.kPart;
    else
      part = partOf(i.role);
  });
  return part;
}

bool isJoined(const Instruction &instruction) {
  bool joined = false;
  visitInstruction(instruction, [&](const auto &i) {
    if constexpr (requires { i.joined; })
      joined = i.joined;
  });
  return joined;
}

bool beginsReads(const Instruction &instruction) {
  bool begins = false;
  visitInstruction(instruction, [&](const auto &i) {
    if constexpr (requires { i.beginsReads; })
      begins = i.beginsReads;
  });
  return begins;
}

} // namespace moert
