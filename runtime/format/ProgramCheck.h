// The checks of a program's instructions one by one. The compiler runs them on its IR with the
// symbols of a module in place of an artifact; validateProgram() adds the rules about the program
// as a whole.
#pragma once

#include "runtime/format/Artifact.h"
#include "runtime/format/BufferWalk.h"

#include <cassert>
#include <span>
#include <type_traits>
#include <vector>

namespace moert {

/// Whether an activation has the numbers that its kind takes: positive ones, or none.
Status checkActivation(const GluActivation &activation);

/// Whether a check tracks which buffers hold a value and which share bytes; without offsets it
/// cannot.
enum class Values { kTracked, kIgnored };

/// What each buffer and vector of an instruction has to be, in the order of the declaration. The
/// indices of its fields exist; scratch may be absent.
Result<std::vector<Shape>> shapesOf(const Artifact &artifact, const Program &program,
                                    const Instruction &instruction);

/// Calls visit(FieldRole, name, field, Shape) for each of them.
template <typename AnyInstruction, typename Visit>
void describeShaped(AnyInstruction &instruction, std::span<const Shape> shapes, Visit &&visit) {
  auto shape = shapes.begin();
  describe(instruction, [&]<typename T>(FieldRole role, const char *name, T &field) {
    if constexpr (std::is_same_v<std::remove_const_t<T>, int32_t>)
      if (isBuffer(role) || role == FieldRole::kVector || role == FieldRole::kOptionalVector) {
        assert(shape != shapes.end() && "a shape for each buffer and vector");
        visit(role, name, field, *shape++);
      }
  });
}

/// Walks through one program. Borrows both arguments.
class ProgramCheck {
public:
  ProgramCheck(const Artifact &whole, const Program &checked)
      : artifact(whole), program(checked), buffers(checked) {}

  /// Whether every buffer is well formed and lies in the arena. Call first.
  Status checkBuffers() const { return buffers.checkBuffers(); }

  /// Whether the instruction's operands exist, have the kinds and widths that it needs, hold values
  /// if they are read, and share no bytes. Call for each instruction, in order.
  Status checkInstruction(const Instruction &instruction, Values values = Values::kTracked);

  BufferWalk &walk() { return buffers; }

private:
  const Artifact &artifact;
  const Program &program;
  BufferWalk buffers;
};

} // namespace moert
