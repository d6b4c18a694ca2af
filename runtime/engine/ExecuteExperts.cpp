// Executes the experts of a layer: each is read at most once per batch and computed for all of its
// tokens as soon as it is in memory. Results are stored by rank and summed in the router's order
// when all are complete, so the order of arrival never affects the output.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace moert {

Grouping Grouping::make(Engine::Impl &engine, const MoeLayerTables &layer, int32_t experts) {
  const auto expertCount = static_cast<uint32_t>(layer.records.size());
  uint32_t topK = engine.bufferInfo(experts).width;
  Rows chosen = engine.buffer(experts);
  std::vector<uint32_t> &begin = engine.expertBegin;
  std::fill_n(begin.begin(), expertCount + 1, 0);
  uint32_t pairs = 0;
  for (uint32_t row = 0; row < engine.rows(); ++row) {
    const uint32_t ranks = engine.ranksOf(row, topK);
    pairs += ranks;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      ++begin[static_cast<uint32_t>(chosen.integers(row)[rank]) + 1];
  }
  uint32_t distinct = 0;
  for (uint32_t e = 0; e < expertCount; ++e) {
    if (begin[e + 1] != 0)
      engine.wanted[distinct++] = e;
  }
  std::span<uint32_t> wanted(engine.wanted.data(), distinct);
  std::sort(wanted.begin(), wanted.end(), [&](uint32_t a, uint32_t b) {
    return begin[a + 1] != begin[b + 1] ? begin[a + 1] > begin[b + 1] : a < b;
  });
  for (uint32_t i = 0; i < distinct; ++i)
    engine.wantedUses[i] = begin[wanted[i] + 1];
  for (uint32_t e = 0; e < expertCount; ++e)
    begin[e + 1] += begin[e];
  // Placing moves each expert's begin to its end; this backward pass moves it back.
  for (uint32_t i = engine.rows() * topK; i-- > 0;) {
    if (i % topK >= engine.ranksOf(i / topK, topK))
      continue;
    uint32_t e = static_cast<uint32_t>(chosen.integers(i / topK)[i % topK]);
    engine.expertRows[--begin[e + 1]] = i;
  }
  for (uint32_t e = 0; e < expertCount; ++e)
    begin[e] = begin[e + 1];
  begin[expertCount] = pairs;
  Grouping grouping = {topK, wanted, std::span(engine.wantedUses.data(), distinct), {}};
  if (!engine.isLossy)
    return grouping;
  std::vector<uint16_t> &slices = engine.misses.wantedSlices;
  for (uint32_t i = 0; i < distinct; ++i)
    slices[i] = engine.misses.demanded[wanted[i]];
  grouping.slices = std::span(slices.data(), distinct);
  return grouping;
}

// Distance between the results of one rank and those of the next.
static uint64_t rankStrideOf(uint32_t hidden) {
  return roundUp(hidden, kRankRowElements);
}

// Copies the rows of an expert's tokens together; returns the buffer that holds them. A batch of
// one token needs no copy.
static int32_t gatherRows(Engine::Impl &engine, const ExpertsInstruction &instruction,
                          std::span<const uint32_t> pairs, uint32_t topK) {
  if (engine.rows() == 1)
    return instruction.src;
  Rows src = engine.buffer(instruction.src), dst = engine.buffer(instruction.gathered);
  for (size_t i = 0; i < pairs.size(); ++i)
    std::memcpy(dst.data + i * dst.bytesPerRow, src.data + (pairs[i] / topK) * src.bytesPerRow,
                src.bytesPerRow);
  return instruction.gathered;
}

// Adds the bias of expert `number` to its products of `width` elements; biases may be null.
static void addExpertBias(Engine::Impl &engine, const float *biases, uint32_t number,
                          uint32_t width, uint32_t count, Rows products) {
  if (biases)
    engine.kernels->addBias(products.floats(), products.stride(), biases + uint64_t(number) * width,
                            count, width, products.floats(), products.stride());
}

// down(activation(gate x, up x)) of expert `number` for its tokens; stores each result by rank.
static void computeExpert(Engine::Impl &engine, const ExpertsInstruction &instruction,
                          const ExpertTemplate &expert, uint32_t number, const PagedBytes &record,
                          std::span<const uint32_t> pairs, uint32_t topK) {
  uint32_t count = static_cast<uint32_t>(pairs.size());
  auto view = [&](ExpertPart part) {
    WeightView matrix = expert.matrices[static_cast<size_t>(part)];
    matrix.bytes = record.from(matrix.bytes.offset);
    return matrix;
  };
  WeightView gateWeights = view(ExpertPart::kGate), upWeights = view(ExpertPart::kUp);
  WeightView down = view(ExpertPart::kDown);
  uint32_t width = down.shape.cols, hidden = down.shape.rows;
  Rows gate = engine.buffer(instruction.gate), up = engine.buffer(instruction.up);
  Rows out = engine.buffer(instruction.dst), ranks = engine.buffer(instruction.ranks);

  int32_t input = gatherRows(engine, instruction, pairs, topK);
  const Product products[] = {{&gateWeights, gate.floats(), gate.stride()},
                              {&upWeights, up.floats(), up.stride()}};
  engine.multiply(products, input, 0, count);
  addExpertBias(engine, engine.vector(instruction.gateBias), number, width, count, gate);
  addExpertBias(engine, engine.vector(instruction.upBias), number, width, count, up);
  activate(*engine.kernels, engine.artifact->moeLayers[instruction.moeLayer].activation,
           gate.floats(), up.floats(), count, width, gate.stride(), gate.floats());
  int32_t activated = instruction.gate;
  if (instruction.hidden != kNone) {
    engine.kernels->quantizeRows(gate.floats(), gate.stride(), count, width,
                                 engine.quantized(instruction.hidden));
    activated = instruction.hidden;
  }
  engine.multiply(down, activated, 0, count, out.floats(), out.stride());
  addExpertBias(engine, engine.vector(instruction.downBias), number, hidden, count, out);
  for (uint32_t i = 0; i < count; ++i)
    std::memcpy(ranks.floats(pairs[i] / topK) + pairs[i] % topK * rankStrideOf(hidden),
                out.floats(i), hidden * sizeof(float));
}

/// The same for a batch that is decoded: each row with the slices that it would find. Orders the
/// pairs by their slices.
static void computeBySlices(Engine::Impl &engine, const ExpertsInstruction &instruction,
                            const MoeLayerTables &layer, uint32_t expert, const PagedBytes &record,
                            std::span<uint32_t> pairs, uint32_t topK) {
  const std::vector<uint16_t> &slices = engine.misses.rankSlices;
  std::sort(pairs.begin(), pairs.end(), [&slices](uint32_t a, uint32_t b) {
    return slices[a] != slices[b] ? slices[a] < slices[b] : a < b;
  });
  while (!pairs.empty()) {
    const uint16_t own = slices[pairs.front()];
    size_t count = 1;
    while (count < pairs.size() && slices[pairs[count]] == own)
      ++count;
    computeExpert(engine, instruction, layer.templateOf(expert, own), expert, record,
                  pairs.first(count), topK);
    pairs = pairs.subspan(count);
  }
}

Status Engine::Impl::beginExperts(uint32_t moeLayer, int32_t experts) {
  openExperts = Grouping::make(*this, moeLayers[moeLayer], experts);
  PassDemand demand = {openExperts->wanted, openExperts->uses, rows(), openExperts->slices};
  if (weighsExperts)
    demand.importances = std::span(importances).first(moeLayers[moeLayer].records.size());
  Status begun = cache->beginLayer(moeLayer - firstCachedLayer, demand);
  if (!begun.isOk())
    openExperts.reset();
  return begun;
}

Status Engine::Impl::executeExperts(const ExpertsInstruction &instruction,
                                    LayerProfile &layerProfile) {
  const MoeLayerTables &layer = moeLayers[instruction.moeLayer];
  if (!openExperts) // Layerwise execution begins no reads earlier.
    MOERT_RETURN_IF_ERROR(beginExperts(instruction.moeLayer, instruction.experts));
  const Grouping grouping = *std::exchange(openExperts, std::nullopt);
  while (true) {
    MOERT_ASSIGN_OR_RETURN(int index, cache->nextReady());
    if (index < 0)
      break;
    uint32_t expert = grouping.wanted[static_cast<size_t>(index)];
    std::span<uint32_t> pairs(expertRows.data() + expertBegin[expert],
                              expertBegin[expert + 1] - expertBegin[expert]);
    if (decodedCache)
      computeBySlices(*this, instruction, layer, expert, cache->bytes(index), pairs, grouping.topK);
    else
      computeExpert(*this, instruction, layer.templateOf(expert, cache->slicesOf(index)), expert,
                    cache->bytes(index), pairs, grouping.topK);
    MOERT_RETURN_IF_ERROR(cache->release(index));
  }
  MOERT_RETURN_IF_ERROR(cache->endLayer());

  uint32_t hidden = bufferInfo(instruction.dst).width;
  Rows weights = buffer(instruction.weights), ranks = buffer(instruction.ranks);
  Rows dst = buffer(instruction.dst);
  for (uint32_t row = 0; row < rows(); ++row)
    kernels->combineRanks(ranks.floats(row), rankStrideOf(hidden), weights.floats(row),
                          ranksOf(row, grouping.topK), hidden, dst.floats(row));

  layerProfile.bytesRead += cache->passCounts().bytesRead;
  const CacheCounts &counts = decodedCache ? misses.rowCounts : cache->passCounts();
  layerProfile.hits += static_cast<uint32_t>(counts.hits);
  layerProfile.misses += static_cast<uint32_t>(counts.misses);
  layerProfile.prefetchBytes += counts.prefetchBytes;
  layerProfile.useful += static_cast<uint32_t>(counts.useful);
  layerProfile.ready += static_cast<uint32_t>(counts.ready);
  layerProfile.stalled += static_cast<uint32_t>(counts.stalled);
  layerProfile.cancelled += static_cast<uint32_t>(counts.cancelled);
  layerProfile.promoted += static_cast<uint32_t>(counts.promoted);
  if (isLossy) {
    layerProfile.lowered += misses.lowered;
    layerProfile.skipped += misses.skipped;
    layerProfile.substituted += misses.substituted;
  }
  return {};
}

} // namespace moert
