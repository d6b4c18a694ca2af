#include "runtime/engine/Step.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/engine/Footprint.h"
#include "runtime/exec/Hadamard.h"

#include <algorithm>

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

uint64_t Step::arenaBytesFor(uint32_t tokens) const {
  return arenaBytesPerToken(*artifact, sizes.mayLose).total() * tokens;
}

void Step::useArena(uint32_t tokens) {
  const ArenaBytes bytes = arenaBytesPerToken(*artifact, sizes.mayLose);
  lowCopyRows = {arena.data() + bytes.buffers * tokens, bytes.lowCopyRows};
  sizes.tokens = tokens;
}

StepTables Step::makeTables(uint32_t tokens, bool usesPathTable) const {
  uint64_t topK = 1;
  for (const MoeLayer &layer : artifact->moeLayers)
    topK = std::max<uint64_t>(topK, layer.topK);
  StepTables tables;
  tables.batch.reserve(tokens);
  tables.ropeTables.resize(uint64_t(ropeFloatsPerRow) * tokens);
  tables.expertRows.resize(topK * tokens);
  tables.inputNorms.resize(sizes.weighsExperts ? tokens : 0, 1.0f);
  for (std::vector<int32_t> &layer : tables.chosen)
    layer.reserve(usesPathTable ? topK * tokens : 0);
  return tables;
}

Result<Step> Step::create(const Artifact &model, const StepShape &stepShape) {
  Step step;
  step.artifact = &model;
  step.sizes = stepShape;
  step.ropeFloatsPerRow = ropeFloatsOf(model, step.ropeOffsets);
  MOERT_RETURN_IF_ERROR(step.arena.resize(step.arenaBytesFor(stepShape.tokens)));
  step.useArena(stepShape.tokens);
  static_cast<StepTables &>(step) = step.makeTables(stepShape.tokens, stepShape.usesPathTable);
  step.attentionScratchFloats = attentionScratchFloatsOf(model, stepShape.contextTokens);
  MOERT_ASSIGN_OR_RETURN(step.scratch, HostRegion::create(step.attentionScratchFloats *
                                                          sizeof(float) * stepShape.threads));
  step.logitsStride = roundUp(model.model.vocabularySize, kBufferAlignment / sizeof(float));
  MOERT_ASSIGN_OR_RETURN(
      step.logits, HostRegion::create(step.logitsStride * sizeof(float) * stepShape.logitsRows));
  step.profile.resize(model.model.layers + 1);
  return step;
}

void Step::begin(const KernelTable &kernels) {
  std::fill(profile.begin(), profile.end(), LayerProfile());
  partNs.fill(0);
  routed = nullptr;
  for (uint32_t row = 0; row < rows(); ++row)
    for (size_t i = 0; i < artifact->ropes.size(); ++i) {
      const Rope &rope = artifact->ropes[i];
      const bool isLong =
          rope.originalPositions != 0 && sizes.sequenceTokens > rope.originalPositions;
      const auto &frequencies = isLong ? rope.longInverseFrequencies : rope.inverseFrequencies;
      const auto count = static_cast<uint32_t>(frequencies.size());
      float *cosines = ropeTables.data() + uint64_t(row) * ropeFloatsPerRow + ropeOffsets[i];
      kernels.ropeTable(batch[row].position, frequencies.data(), count,
                        isLong ? rope.longAttentionFactor : rope.attentionFactor, cosines,
                        cosines + roundUp(count, 16));
    }
}

} // namespace moert
