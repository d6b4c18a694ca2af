// Tracks the contents of a program's buffers while its instructions are walked through in order:
// which buffers have a value, and which hold a router's output. ValidateProgram.cpp has the rules
// about single instructions.
//
// Writing a buffer ends the value of every other buffer that shares bytes with it. This finds
// lifetimes that plan-memory let overlap by mistake here, not as wrong tokens or wild reads.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Schedule.h"

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace moert {

enum class Access {
  kRead,
  kWrite,
  kUpdate,  // Read, then written.
  kScratch, // Written; holds nothing afterwards.
};

/// A buffer that an instruction uses, and the kind, width and group that it must have.
struct Operand {
  const char *name;
  int32_t buffer;
  BufferKind kind;
  uint64_t width;
  uint32_t group; // If kQuantized.
  Access access;
};

/// Whether writing one changes the other.
bool sharesBytes(const Buffer &a, const Buffer &b);

Operand f32Operand(const char *name, int32_t buffer, uint64_t width, Access access);
Operand i32Operand(const char *name, int32_t buffer, uint64_t width, Access access);

/// Belongs to the check of one program, which outlives it. Not thread-safe.
class BufferWalk {
public:
  explicit BufferWalk(const Program &walked) : program(walked), states(walked.buffers.size()) {}

  /// Whether every buffer is well formed and lies in the arena. Call before the first apply().
  Status checkBuffers() const;

  /// The buffer's width, for operands whose width follows from nothing else.
  Result<uint64_t> widthOf(const char *name, int32_t buffer) const;

  /// Checks kind, width and group; and that there is a value, if it is read.
  Status checkOperand(const Operand &operand) const;
  /// mayBeInPlace: a written operand may lie exactly where a read one does. Both were checked.
  Status checkDisjoint(const Operand &a, const Operand &b, bool mayBeInPlace) const;

  /// Checks the operands of an instruction and applies its effect on the buffers' values.
  Status apply(std::initializer_list<Operand> operands, bool mayBeInPlace = false);

  /// A router wrote the buffer; it holds that layer's routing until it is written again.
  void setRouting(int32_t buffer, uint32_t moeLayer);
  Status checkRouting(int32_t buffer, uint32_t moeLayer) const;

private:
  static constexpr int64_t kNotRouted = -1;
  /// The contents of a buffer at this point of the program.
  struct State {
    bool hasValue = false;
    int64_t routedLayer = kNotRouted; // The MoE layer whose router wrote it.
  };

  Status checkBuffer(const Buffer &buffer) const;
  void write(int32_t buffer, bool hasValue);

  const Program &program;
  std::vector<State> states;
};

} // namespace moert
