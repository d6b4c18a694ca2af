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
#include <span>
#include <vector>

namespace moert {

/// Kind, width and group that an instruction needs an operand to have.
struct Shape {
  BufferKind kind;
  uint64_t width;
  uint32_t group = 0; // Where quantized.
  uint64_t rows = 0;  // That a token has; 0: as many as before the instruction.
};

/// A buffer that an instruction uses.
struct Operand {
  const char *name;
  int32_t buffer;
  FieldRole role;
  Shape shape;
};

/// Whether writing one changes the other.
bool sharesBytes(const Buffer &a, const Buffer &b);

/// Belongs to the check of one program, which outlives it. Not thread-safe.
class BufferWalk {
public:
  explicit BufferWalk(const Program &walked) : program(walked), states(walked.buffers.size()) {}

  /// Whether every buffer is well formed and lies in the arena. Call before the first apply().
  Status checkBuffers() const;

  /// The buffer's width, for operands whose width follows from nothing else.
  Result<uint64_t> widthOf(const char *name, int32_t buffer) const;

  /// Checks kinds, widths, groups and rows of an instruction's operands.
  Status checkShapes(std::span<const Operand> operands);
  /// Checks that what is read holds a value, and that operands share bytes only where they may;
  /// then applies the instruction's effect on the buffers' values. The shapes were checked.
  Status apply(std::span<const Operand> operands);

  /// Rows that a token has after the instructions so far.
  uint64_t rowsPerToken() const { return rows; }

  /// A router wrote the buffer; it holds that layer's routing until it is written again.
  void setRouting(int32_t buffer, uint32_t moeLayer);
  Status checkRouting(int32_t buffer, uint32_t moeLayer) const;

private:
  static constexpr int64_t kNotRouted = -1;
  /// The contents of a buffer at this point of the program.
  struct State {
    bool hasValue = false;
    int64_t routedLayer = kNotRouted; // The MoE layer whose router wrote it, updates aside.
  };

  Status checkBuffer(const Buffer &buffer) const;
  Status checkDisjoint(const Operand &a, const Operand &b) const;
  void write(int32_t buffer, bool hasValue);

  const Program &program;
  std::vector<State> states;
  uint64_t rows = 1; // That a token has.
};

} // namespace moert
