// The state of a step: its batch and program, the memory that its instructions work in, and what it
// measured. An executor gets it with the instructions.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/engine/Footprint.h"
#include "runtime/engine/SequenceSession.h"
#include "runtime/exec/Kernels.h"
#include "runtime/format/Artifact.h"
#include "runtime/memory/EngineMemory.h"

#include <array>
#include <cstdint>
#include <vector>

namespace moert {

/// One token of the batch that is being computed.
struct BatchRow {
  SequenceSession *session;
  uint32_t position;
  int32_t token;
  bool wantsLogits;
  float inputNorm = 1; // The router's input has it; 1 where it is unknown.
};

/// Rows of one buffer of the program being executed.
struct Rows {
  std::byte *data;
  uint64_t bytesPerRow;

  float *floats(uint64_t row = 0) const {
    return reinterpret_cast<float *>(data + row * bytesPerRow);
  }
  int32_t *integers(uint64_t row = 0) const {
    return reinterpret_cast<int32_t *>(data + row * bytesPerRow);
  }
  uint64_t stride() const { return bytesPerRow / 4; }
  /// From firstRow on, as codes of `width` elements with their scales and sums.
  QuantizedRows quantized(uint32_t width, uint32_t group, uint64_t firstRow) const;
};

/// A list in memory of others, whose length they bound.
template <typename T> class ArenaList {
public:
  ArenaList() = default;
  explicit ArenaList(T *memory) : first(memory) {}

  void clear() { count = 0; }
  void push_back(const T &value) { first[count++] = value; }
  size_t size() const { return count; }
  T *begin() const { return first; }
  T *end() const { return first + count; }
  T &operator[](size_t index) const { return first[index]; }

private:
  T *first = nullptr;
  size_t count = 0;
};

/// What the memory of steps is made for.
struct StepShape {
  uint32_t tokens = 0;        // A batch has at most so many.
  uint32_t contextTokens = 0; // A sequence has at most so many, rounded up to blocks.
  /// The same as requested: decides the rotation.
  uint32_t sequenceTokens = 0;
  uint32_t logitsRows = 0;
  bool mayLose = false; // Some plan has a miss rule that applies.
};

/// Invariant: the arena has room for shape().tokens tokens. Sized once; a step allocates nothing.
class Step {
public:
  Step() = default;
  /// Borrows the model. stepMemory: for this shape.
  Step(const Artifact &model, const StepShape &stepShape, StepMemory stepMemory);

  const StepShape &shape() const { return sizes; }
  uint64_t arenaBytesFor(uint32_t tokens) const { return uint64_t(bytesPerToken.total()) * tokens; }
  /// From now on steps have so many tokens; the arena has their bytes, and may have moved.
  void useArena(uint32_t tokens);
  /// Forgets what the step before measured and computes the rotations of the batch.
  void begin(const KernelTable &kernels);

  uint32_t rows() const { return static_cast<uint32_t>(batch.size()) * rowsPerToken; }
  /// The token of a row.
  BatchRow &tokenOf(uint32_t row) const { return batch[row / rowsPerToken]; }
  /// The row's place in its sequence, with all rows of the tokens before it.
  uint32_t positionOf(uint32_t row) const {
    return tokenOf(row).position * rowsPerToken + row % rowsPerToken;
  }
  Rows buffer(int32_t index) const {
    const Buffer &info = bufferInfo(index);
    return {memory.arena.data() + info.offset * sizes.tokens, info.bytesPerRow()};
  }
  const Buffer &bufferInfo(int32_t index) const {
    return program->buffers[static_cast<size_t>(index)];
  }
  QuantizedRows quantized(int32_t index, uint64_t firstRow = 0) const;
  const float *ropeTableOf(uint32_t row, size_t rope) const {
    return ropeTables + uint64_t(row) * ropeFloatsPerRow + ropeOffsets[rope];
  }
  /// The same rotation at any position: cosines and sines with room for whole vectors.
  void computeRope(const KernelTable &kernels, size_t rope, uint32_t position, float *cosines,
                   float *sines) const;
  float *attentionScratch(uint32_t thread) const {
    return reinterpret_cast<float *>(memory.scratch.data()) + thread * attentionScratchFloats;
  }
  /// Floats of the scratch that kernels use; biases follow them where a program has some.
  uint64_t kernelScratchFloats() const { return kernelFloats; }
  /// Row `row` of shape().logitsRows.
  float *logitsRow(uint32_t row) const {
    return reinterpret_cast<float *>(memory.logits.data()) + row * logitsStride;
  }

  StepMemory memory;
  uint64_t logitsStride = 0; // Floats from one row to the next.

  // In the arena, after the buffers (Footprint.h, ArenaBytes).
  Rows lowCopyRows = {};
  ArenaList<BatchRow> batch;
  uint32_t *expertRows = nullptr; // Row and rank of each pair: see Grouping.
  // The experts that all rows chose in the last MoE layer and in the one before that; used by the
  // activation-path table only.
  std::array<ArenaList<int32_t>, 2> chosen;

  const Program *program = nullptr;
  const float *pixels = nullptr; // Images, which are the tokens of the program "classify".
  uint32_t rowsPerToken = 1;     // At this instruction; more than one where tokens are images.
  StepObserver *observer = nullptr;
  bool isLossy = false;                     // The miss rule applies to the tokens of this step.
  bool lowersPrompt = false;                // It applies to the experts of this chunk of a prompt.
  const RouteInstruction *routed = nullptr; // The last route that was executed.

  std::vector<LayerProfile> profile; // Per layer of the model, and one for the rest.
  PartNumbers partNs{};
  StepReads reads;

private:
  const Artifact *artifact = nullptr;
  StepShape sizes;
  ArenaBytes bytesPerToken;
  float *ropeTables = nullptr; // In the arena: [row][rope][cosines, sines].
  std::vector<uint32_t> ropeOffsets;
  uint32_t ropeFloatsPerRow = 0;
  uint64_t attentionScratchFloats = 0, kernelFloats = 0; // Per thread.
};

} // namespace moert
