// What the buffers of a program hold while its instructions are walked through in their order:
// which have a value, and which have a router's. The rules about single instructions are
// ValidateProgram.cpp's.
//
// Writing a buffer ends the value of every other one that shares bytes with it, so that lifetimes
// that plan-memory let overlap by mistake are found here and not as wrong tokens or wild reads.
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

/// A buffer that an instruction uses, and what it has to be.
struct Operand {
  const char *name;
  int32_t buffer;
  BufferKind kind;
  uint64_t width;
  uint32_t group; // Of kQuantized.
  Access access;
};

/// Whether what is written to the one changes the other.
bool sharesBytes(const Buffer &a, const Buffer &b);

Operand f32Operand(const char *name, int32_t buffer, uint64_t width, Access access);
Operand i32Operand(const char *name, int32_t buffer, uint64_t width, Access access);

/// Belongs to the check of one program, which outlives it; one thread.
class BufferWalk {
public:
  explicit BufferWalk(const Program &walked) : program(walked), states(walked.buffers.size()) {}

  /// Whether every buffer is well formed and lies in the arena. Comes before the first instruction.
  Status checkBuffers() const;

  /// Where a width is not known from elsewhere, the buffer itself says it.
  Result<uint64_t> widthOf(const char *name, int32_t buffer) const;

  /// Kind, width and group; and a value, where it is read.
  Status checkOperand(const Operand &operand) const;
  /// mayBeInPlace: a written operand may lie exactly where a read one does. Both are checked.
  Status checkDisjoint(const Operand &a, const Operand &b, bool mayBeInPlace) const;

  /// Checks the operands of an instruction and carries out what they do to the buffers' values.
  Status apply(std::initializer_list<Operand> operands, bool mayBeInPlace = false);

  /// A router wrote the buffer, and until it is written again it holds that layer's routing.
  void setRouting(int32_t buffer, uint32_t moeLayer);
  Status checkRouting(int32_t buffer, uint32_t moeLayer) const;

private:
  static constexpr int64_t kNotRouted = -1;
  /// What a buffer holds at this point of the program.
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
