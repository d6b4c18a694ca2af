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

StepPart partOf(const Instruction &instruction) {
  return std::visit(
      []<typename T>(const T &i) {
        if constexpr (requires { T::kPart; })
          return T::kPart;
        else
          return partOf(i.role);
      },
      instruction);
}

bool isJoined(const Instruction &instruction) {
  return std::visit(
      [](const auto &i) {
        if constexpr (requires { i.joined; })
          return i.joined;
        return false;
      },
      instruction);
}

bool beginsReads(const Instruction &instruction) {
  return std::visit(
      [](const auto &i) {
        if constexpr (requires { i.beginsReads; })
          return i.beginsReads;
        return false;
      },
      instruction);
}

} // namespace moert
