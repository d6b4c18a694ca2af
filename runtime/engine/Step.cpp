#include "runtime/engine/Step.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/exec/Hadamard.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace moert {

QuantizedRows Rows::quantized(uint32_t width, uint32_t group, uint64_t firstRow) const {
  uint64_t codes = roundUp(width, group);
  uint64_t groupsBytes = roundUp(codes / group * 4, kBufferAlignment);
  std::byte *row = data + firstRow * bytesPerRow;
  std::byte *scales = row + roundUp(codes, kBufferAlignment);
  return {reinterpret_cast<int8_t *>(row),
          reinterpret_cast<float *>(scales),
          reinterpret_cast<int32_t *>(scales + groupsBytes),
          static_cast<uint32_t>(codes),
          group,
          bytesPerRow,
          stride()};
}

QuantizedRows Step::quantized(int32_t index, uint64_t firstRow) const {
  const Buffer &info = bufferInfo(index);
  QuantizedRows rows = buffer(index).quantized(info.width, info.group, firstRow);
  if (info.kind == BufferKind::kHadamard)
    rows.hadamardBlock = hadamardBlockOf(info.width);
  return rows;
}

void Step::useArena(uint32_t tokens) {
  std::byte *next = memory.arena.data();
  auto take = [&next, tokens]<typename T>(uint64_t bytes, T *&list) {
    list = reinterpret_cast<T *>(next);
    next += bytes * tokens;
  };
  std::byte *buffers = nullptr;
  BatchRow *rows = nullptr;
  std::array<int32_t *, 2> experts{};
  take(bytesPerToken.buffers, buffers);
  take(bytesPerToken.lowCopyRows, lowCopyRows.data);
  take(ropeFloatsPerRow * sizeof(float), ropeTables);
  take(sizeof(BatchRow), rows);
  take(bytesPerToken.topK * sizeof(uint32_t), expertRows);
  for (int32_t *&list : experts)
    take(bytesPerToken.topK * sizeof(int32_t), list);
  assert(next <= memory.arena.data() + arenaBytesFor(tokens));
  lowCopyRows.bytesPerRow = bytesPerToken.lowCopyRows;
  batch = ArenaList(rows);
  chosen = {ArenaList(experts[0]), ArenaList(experts[1])};
  sizes.tokens = tokens;
}

Step::Step(const Artifact &model, const StepShape &stepShape, StepMemory stepMemory)
    : memory(std::move(stepMemory)),
      logitsStride(roundUp(model.model.vocabularySize, kBufferAlignment / sizeof(float))),
      profile(model.model.layers + 1), artifact(&model), sizes(stepShape),
      bytesPerToken(arenaBytesPerToken(model, stepShape.mayLose)),
      ropeFloatsPerRow(ropeFloatsOf(model, ropeOffsets)),
      attentionScratchFloats(
          roundUp(attentionScratchFloatsOf(model, stepShape.contextTokens), 4096 / sizeof(float))),
      kernelFloats(attentionScratchFloatsOf(model, stepShape.contextTokens) -
                   biasFloatsPerToken(model) * roundUp(stepShape.contextTokens, 16)) {
  useArena(sizes.tokens);
}

void Step::computeRope(const KernelTable &kernels, size_t number, uint32_t position, float *cosines,
                       float *sines) const {
  const Rope &rope = artifact->ropes[number];
  const bool isLong = rope.originalPositions != 0 && sizes.sequenceTokens > rope.originalPositions;
  const auto &frequencies = isLong ? rope.longInverseFrequencies : rope.inverseFrequencies;
  kernels.ropeTable(position, frequencies.data(), static_cast<uint32_t>(frequencies.size()),
                    isLong ? rope.longAttentionFactor : rope.attentionFactor, cosines, sines);
}

void Step::begin(const KernelTable &kernels) {
  std::fill(profile.begin(), profile.end(), LayerProfile());
  partNs.fill(0);
  routed = nullptr;
  rowsPerToken = 1;
  for (uint32_t row = 0; row < rows(); ++row)
    for (size_t i = 0; i < artifact->ropes.size(); ++i) {
      float *cosines = ropeTables + uint64_t(row) * ropeFloatsPerRow + ropeOffsets[i];
      computeRope(kernels, i, batch[row].position, cosines,
                  cosines + roundUp(artifact->ropes[i].inverseFrequencies.size(), 16));
    }
}

} // namespace moert
