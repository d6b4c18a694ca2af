#include "runtime/engine/Footprint.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/engine/ResidentWeights.h"
#include "runtime/engine/Step.h"
#include "runtime/engine/WindowAttention.h"

#include <algorithm>

namespace moert {

CacheShape cacheShapeOf(const Artifact &artifact) {
  CacheShape shape;
  for (const MoeLayer &layer : artifact.moeLayers)
    shape.layers.push_back(cacheLayerOf(recordBytesOf(layer), artifact.pageBytes, layer.topK));
  return shape;
}

uint32_t mostExpertsOf(const Artifact &artifact) {
  size_t most = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    most = std::max(most, layer.experts.size());
  return static_cast<uint32_t>(most);
}

uint64_t largestTopK(const Artifact &artifact) {
  uint64_t topK = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    topK = std::max<uint64_t>(topK, layer.topK);
  return topK;
}

uint64_t mostRowsOf(const Artifact &artifact) {
  uint32_t most = 1;
  for (const Program &program : artifact.programs)
    for (const Buffer &buffer : program.buffers)
      most = std::max(most, buffer.rows());
  return most;
}

uint32_t ropeFloatsOf(const Artifact &artifact, std::vector<uint32_t> &offsets) {
  uint32_t floats = 0;
  for (const Rope &rope : artifact.ropes) {
    offsets.push_back(floats);
    floats += 2 * static_cast<uint32_t>(roundUp(rope.inverseFrequencies.size(), 16));
  }
  return floats;
}

/// Keys that a token attends to at most, per token of the context: its tokens' and its pools'.
static uint32_t keysPerTokenOf(const Artifact &artifact) {
  return std::any_of(artifact.kvSlots.begin(), artifact.kvSlots.end(),
                     [](const KvSlot &slot) { return slot.valueDim == 0 && slot.kvHeads == 2; })
             ? 2
             : 1;
}

bool computesWholeCalls(const Artifact &artifact) {
  for (const Program &program : artifact.programs)
    for (const Instruction &instruction : program.instructions) {
      const auto *attend = std::get_if<AttendRangeInstruction>(&instruction);
      if (std::holds_alternative<CapacityInstruction>(instruction) ||
          (attend && attend->range == AttendedRange::kInputAndEarlier))
        return true;
    }
  return false;
}

uint64_t biasFloatsPerToken(const Artifact &artifact) {
  for (const Program &program : artifact.programs)
    for (const Instruction &instruction : program.instructions)
      if (const auto *attend = std::get_if<AttendRangeInstruction>(&instruction);
          attend && attend->positionBias != kNone)
        return kAttendHeads;
  return 0;
}

uint64_t attentionScratchFloatsOf(const Artifact &artifact, uint32_t contextTokens) {
  uint64_t most = 0;
  for (const KvSlot &slot : artifact.kvSlots)
    most = std::max(most, rowScratchFloats(slot.kind, slot.keyDim,
                                           slot.valueDim != 0 ? slot.valueDim : slot.keyDim));
  for (const Program &program : artifact.programs)
    for (const Instruction &instruction : program.instructions)
      if (const auto *attend = std::get_if<AttendWindowsInstruction>(&instruction))
        most = std::max(
            most, windowScratchFloats(attend->window,
                                      program.buffers[size_t(attend->dst)].width / attend->heads));
  return attentionScratchFloats(keysPerTokenOf(artifact) * contextTokens, most) +
         biasFloatsPerToken(artifact) * roundUp(contextTokens, 16);
}

uint64_t kvBytesPerToken(const Artifact &artifact) {
  uint64_t bytes = 0;
  for (const KvSlot &slot : artifact.kvSlots)
    bytes += slot.bytes();
  return bytes;
}

uint64_t kvBytesOf(const Artifact &artifact, uint32_t contextTokens) {
  return roundUp(contextTokens, kKvBlockTokens) * kvBytesPerToken(artifact);
}

/// Places the slots of a role in the order of their first use; bytesOf(slot): what one takes.
template <typename BytesOf>
static StatePlaces placeSlots(const Artifact &artifact, FieldRole slots, size_t count,
                              bool layersShareMemory, BytesOf bytesOf) {
  StatePlaces places;
  places.offsets.resize(count);
  std::vector<bool> isPlaced(count);
  // Every program uses every slot; layers are executed one at a time by "prefill".
  const Program *program = nullptr;
  for (const Program &one : artifact.programs)
    if (!program || one.name == "prefill")
      program = &one;
  uint64_t next = 0;
  for (size_t i = 0; program && i < program->instructions.size(); ++i) {
    if (layersShareMemory && i > 0 && program->layers[i] != program->layers[i - 1])
      next = 0;
    describe(program->instructions[i], [&](FieldRole role, const char *, const auto &field) {
      if (role != slots)
        return;
      const auto slot = static_cast<size_t>(field);
      if (isPlaced[slot])
        return;
      isPlaced[slot] = true;
      places.offsets[slot] = next;
      next += bytesOf(slot);
    });
    places.bytes = std::max(places.bytes, next);
  }
  return places;
}

StatePlaces placeStates(const Artifact &artifact, bool layersShareMemory) {
  return placeSlots(artifact, FieldRole::kStateSlot, artifact.stateSlots.size(), layersShareMemory,
                    [&](size_t number) {
                      const StateSlot &slot = artifact.stateSlots[number];
                      return roundUp(uint64_t(slot.rows) * slot.width * sizeof(float),
                                     kBufferAlignment);
                    });
}

StatePlaces placeLayerKv(const Artifact &artifact) {
  return placeSlots(artifact, FieldRole::kSlot, artifact.kvSlots.size(), true,
                    [&](size_t number) { return artifact.kvSlots[number].bytes(); });
}

static uint64_t textBytes(std::initializer_list<const std::string *> texts) {
  uint64_t bytes = 0;
  for (const std::string *text : texts)
    bytes += text->capacity();
  return bytes;
}

// The memory of a plan beyond its quotas. All plans stay in memory, not only the one in use.
static uint64_t planBytesOf(const Artifact &artifact) {
  uint64_t bytes = 0;
  for (const Plan &plan : artifact.plans) {
    for (const std::vector<uint32_t> &experts : plan.pinned)
      bytes += sizeof(experts) + experts.capacity() * sizeof(uint32_t);
    for (const LayerStart &start : plan.start)
      bytes +=
          sizeof(start) + (start.experts.capacity() + start.uses.capacity()) * sizeof(uint32_t);
    bytes += plan.prefetches.capacity() * sizeof(PrefetchRule);
    for (const std::vector<uint32_t> &norms : plan.expertNorms)
      bytes += sizeof(norms) + norms.capacity() * sizeof(uint32_t);
    if (plan.loss)
      for (const PlanText &text : plan.loss->texts)
        bytes += sizeof(text) + textBytes({&text.name});
    for (const PlanReason &reason : plan.reasons)
      bytes += sizeof(reason) + textBytes({&reason.decision, &reason.value, &reason.reason});
  }
  return bytes;
}

static uint64_t chatBytesOf(const Artifact &artifact) {
  uint64_t bytes = 0;
  if (artifact.chat) {
    for (const NamedTemplate &named : artifact.chat->templates)
      bytes += sizeof(named) + textBytes({&named.name, &named.text});
    for (const auto &token : artifact.chat->specialTokens)
      bytes += sizeof(token) + textBytes({&token.first, &token.second});
  }
  return bytes;
}

uint64_t describedBytesOf(const Artifact &artifact) {
  return (artifact.measured ? memoryBytesOf(*artifact.measured) : 0) + planBytesOf(artifact) +
         chatBytesOf(artifact);
}

/// A row that holds the quantized inputs of any low copy beside float experts; 0: no such.
static uint64_t lowCopyRowBytesOf(const Artifact &artifact) {
  uint64_t bytes = 0;
  for (const MoeLayer &layer : artifact.moeLayers) {
    const uint32_t group = lowCopyGroupOf(layer);
    if (group == 0 || fullSlicesOf(layer.experts.front()).front().format.isQuantized())
      continue;
    for (const ExpertMatrix &matrix : layer.matrices)
      bytes = std::max(bytes, bufferBytesPerRow(BufferKind::kQuantized, matrix.shape.cols, group));
  }
  return bytes;
}

ArenaBytes arenaBytesPerToken(const Artifact &artifact, bool mayLose) {
  ArenaBytes bytes;
  for (const Program &program : artifact.programs)
    bytes.buffers = std::max(bytes.buffers, program.arenaBytesPerToken);
  bytes.buffers = roundUp(bytes.buffers, kBufferAlignment);
  bytes.lowCopyRows = mayLose ? lowCopyRowBytesOf(artifact) * mostRowsOf(artifact) : 0;
  bytes.topK = largestTopK(artifact) * mostRowsOf(artifact);
  std::vector<uint32_t> offsets;
  // Pairs of row and rank, and the experts chosen in the two layers before.
  const uint64_t pairs = bytes.topK * 3 * sizeof(int32_t);
  bytes.lists = roundUp(ropeFloatsOf(artifact, offsets) * sizeof(float) + pairs + sizeof(BatchRow),
                        kBufferAlignment);
  return bytes;
}

/// Templates that makeLayerTables() makes for the layer, beyond kLayoutsOfLayer.
static uint64_t furtherLayoutsOf(const MoeLayer &layer, bool areReadInPart) {
  uint64_t layouts = 0;
  std::vector<std::vector<ExpertFormat>> known;
  for (const Expert &expert : layer.experts) {
    std::vector<ExpertFormat> formats = formatsOf(expert);
    if (std::find(known.begin(), known.end(), formats) != known.end())
      continue;
    layouts += areReadInPart ? formats.size() : 1;
    known.push_back(std::move(formats));
  }
  return layouts - std::min(layouts, kLayoutsOfLayer);
}

ModelFootprint footprintOf(const Artifact &artifact, bool mayLose) {
  ModelFootprint footprint;
  footprint.residentBytes = artifact.residentBytes;
  // A block's two table entries take 16 bytes for kKvBlockTokens tokens; one byte per token covers
  // them.
  footprint.kvBytesPerToken = kvBytesPerToken(artifact) + artifact.kvSlots.size();
  footprint.stateBytes = placeStates(artifact, false).bytes;
  footprint.logitsBytes = roundUp(uint64_t(artifact.model.vocabularySize) * 4, kBufferAlignment);
  footprint.pageBytes = artifact.pageBytes;
  footprint.expertPayloadBytes = expertPayloadBytes(artifact);
  footprint.cache = cacheShapeOf(artifact);

  TableEntries entries;
  entries.moeLayers = artifact.moeLayers.size();
  entries.residents = artifact.residents.size();
  entries.poolPages = largestPoolPages(footprint.cache);
  for (const MoeLayer &layer : artifact.moeLayers) {
    entries.furtherLayouts += furtherLayoutsOf(layer, mayLose);
    for (const Expert &expert : layer.experts)
      entries.furtherSlices += expert.slices.size() - 1;
  }
  for (const CacheShape::Layer &layer : footprint.cache.layers) {
    entries.experts += layer.experts;
    entries.widestLayer = std::max<uint64_t>(entries.widestLayer, layer.experts);
  }
  for (const Program &program : artifact.programs)
    entries.instructions += program.instructions.size() + program.buffers.size();
  footprint.arenaBytesPerToken = arenaBytesPerToken(artifact, mayLose).total();
  footprint.attentionScratchBytes = attentionScratchFloatsOf(artifact, 0) * sizeof(float);
  footprint.attentionScratchBytesPerContextToken =
      (keysPerTokenOf(artifact) * kAttendHeads + biasFloatsPerToken(artifact)) * sizeof(float);
  footprint.metadataBytes = tableBytes(entries) + describedBytesOf(artifact);
  return footprint;
}

ModelFootprint footprintOf(const Model &model, bool mayLose) {
  ModelFootprint footprint = footprintOf(model.artifact(), mayLose);
  if (const Tokenizer *tokenizer = model.tokenizer())
    footprint.tokenizerBytes =
        roundUp(model.artifact().tokenizerBytes, 4096) + tokenizer->memoryBytes();
  return footprint;
}

ReadQueueOptions readQueueOptions(const Artifact &artifact, IoBackend backend,
                                  std::span<const MemoryPiece> regions) {
  uint64_t largestRecord = artifact.pageBytes;
  for (const MoeLayer &layer : artifact.moeLayers)
    for (const Expert &expert : layer.experts)
      largestRecord = std::max(largestRecord, fullBytesOf(expert));
  ReadQueueOptions options;
  options.backend = backend;
  options.maxPiecesPerRead = static_cast<uint32_t>(divideUp(largestRecord, artifact.pageBytes));
  options.maxReadBytes =
      std::max(uint64_t(options.maxPiecesPerRead) * artifact.pageBytes, kResidentReadBytes);
  options.maxReads = 16;
  options.maxBytesUnderWay = std::max(options.maxBytesUnderWay, largestRecord);
  options.registeredRegions = regions;
  return options;
}

// For the first `slices` slices, or those of them beyond the low copy. Offsets follow from the
// formats alone: slices are contiguous.
static Result<ExpertTemplate> makeTemplate(const MoeLayer &layer, const Expert &expert,
                                           size_t slices) {
  ExpertTemplate made;
  made.formats = formatsOf(expert);
  made.slices = slices;
  made.matrices.resize(kExpertParts);
  const size_t low = lowCopySlicesOf(expert);
  const size_t first = slices > low ? low : 0, end = first < low ? low : expert.slices.size();
  for (size_t s = first; s < end; ++s) {
    const Slice &slice = expert.slices[s];
    MOERT_ASSIGN_OR_RETURN(SliceLayout sliceLayout, sliceLayoutOf(layer, slice.format));
    for (size_t i = 0; i < layer.matrices.size(); ++i) {
      const ExpertMatrix &matrix = layer.matrices[i];
      const WeightFormat &format = formatOf(slice.format, matrix.part);
      WeightView &view = made.matrices[static_cast<size_t>(matrix.part)];
      uint64_t offset = slice.offset + sliceLayout.matrixOffsets[i];
      if (s == first) {
        const std::span<const WeightKind> planes = planesOf(format.kind);
        view.shape = matrix.shape;
        view.format = format;
        view.format.kind = planes.front();
        MOERT_ASSIGN_OR_RETURN(view.layout, layoutOf(matrix.shape, format));
        view.bytes.offset = offset;
        for (size_t p = 1; p < planes.size(); ++p)
          view.planes[view.planeCount++] = {planes[p], view.layout.planeOffsets[p]};
      } else if (s >= slices) {
        view.missingBits += bitsOf(format.kind);
      } else if (format.kind != WeightKind::kInt0) {
        view.planes[view.planeCount++] = {format.kind, offset - view.bytes.offset};
      }
    }
  }
  return made;
}

static Status addExpert(const MoeLayer &layer, const Expert &expert, bool areReadInPart,
                        MoeLayerTables &table) {
  // Refuses slices that form no expert.
  MOERT_RETURN_IF_ERROR(checkSliceFormats(formatsOf(expert)));
  const size_t count = expert.slices.size();
  auto isWhole = [&](const ExpertTemplate &made) {
    return made.slices == count && made.formats == formatsOf(expert);
  };
  auto known = std::find_if(table.templates.begin(), table.templates.end(), isWhole);
  const size_t least = areReadInPart ? 1 : count;
  const bool isNew = known == table.templates.end();
  const auto whole = static_cast<uint32_t>(known - table.templates.begin() +
                                           static_cast<ptrdiff_t>(isNew ? count - least : 0));
  table.templateOfExpert.push_back(whole);
  table.planned.push_back(static_cast<uint16_t>(count));
  for (size_t slices = least; isNew && slices <= count; ++slices) {
    MOERT_ASSIGN_OR_RETURN(ExpertTemplate made, makeTemplate(layer, expert, slices));
    table.templates.push_back(std::move(made));
  }
  std::vector<RecordSlice> &slices = table.slices.emplace_back();
  for (const Slice &slice : expert.slices)
    slices.push_back({slice.offset, slice.bytes, slice.payloadBytes, slice.checksum});
  return {};
}

Result<std::vector<MoeLayerTables>> makeLayerTables(const Artifact &artifact, bool areReadInPart) {
  std::vector<MoeLayerTables> tables(artifact.moeLayers.size());
  for (size_t l = 0; l < tables.size(); ++l) {
    const MoeLayer &layer = artifact.moeLayers[l];
    MoeLayerTables &table = tables[l];
    for (size_t e = 0; e < layer.experts.size(); ++e)
      MOERT_RETURN_IF_ERROR(addExpert(layer, layer.experts[e], areReadInPart, table)
                                .withContext(strCat("layer ", layer.layer, ", expert ", e)));
    // Records borrow the lists of slices, which are complete now.
    for (size_t e = 0; e < layer.experts.size(); ++e)
      table.records.push_back({layer.experts[e].fileOffset, layer.experts[e].bytes, table.slices[e],
                               lowCopySlicesOf(layer.experts[e])});
  }
  return tables;
}

} // namespace moert
