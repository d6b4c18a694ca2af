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
  if (!engine.isLossy && !engine.lowersPrompt)
    return grouping;
  const std::span<uint16_t> slices(engine.misses.wantedSlices.data(), distinct);
  for (uint32_t i = 0; i < distinct; ++i)
    slices[i] = engine.isLossy ? engine.misses.demanded[wanted[i]] : layer.planned[wanted[i]];
  if (engine.lowersPrompt)
    lowerUnpopular(engine.missRule, slices);
  grouping.slices = slices;
  return grouping;
}

/// What activating an element takes, in the multiply-adds of grainFor().
constexpr uint64_t kOperationsToActivate = 32;

// Distance between the results of one rank and those of the next.
static uint64_t rankStrideOf(uint32_t hidden) {
  return roundUp(hidden, kRankRowElements);
}

namespace {

/// Experts that are computed together, at most.
constexpr size_t kMostExperts = 32;

/// An expert in memory and its tokens. Its rows of the buffers begin at firstRow.
struct ExpertTask {
  const ExpertTemplate *layout;
  uint32_t number; // In its layer.
  PagedBytes record;
  std::span<const uint32_t> pairs;
  uint32_t firstRow = 0;
  WeightView gate = {}, up = {}, down = {};

  uint32_t count() const { return static_cast<uint32_t>(pairs.size()); }
  void findMatrices() {
    auto view = [&](ExpertPart part) {
      WeightView matrix = layout->matrices[static_cast<size_t>(part)];
      matrix.bytes = record.from(matrix.bytes.offset);
      return matrix;
    };
    gate = view(ExpertPart::kGate);
    up = view(ExpertPart::kUp);
    down = view(ExpertPart::kDown);
  }
};

/// Computes experts of one layer in three parallel runs, however many they are: an expert with a
/// token or two has too little work for runs of its own.
class ExpertTasks {
public:
  ExpertTasks(Engine::Impl &computingEngine, const ExpertsInstruction &experts, uint32_t ranks)
      : engine(computingEngine), instruction(experts), topK(ranks),
        gate(engine.buffer(experts.gate)), up(engine.buffer(experts.up)),
        out(engine.buffer(experts.dst)) {}

  /// Whether there is room for such an expert with so many tokens.
  bool hasRoom(const ExpertTemplate &layout, size_t pairs) const {
    return count == 0 || (count < kMostExperts && rows + pairs <= engine.chunk &&
                          isQuantized(layout.matrices.front().format.kind) == areQuantized());
  }
  void add(const ExpertTask &task) {
    tasks[count] = task;
    tasks[count].firstRow = rows;
    tasks[count].findMatrices();
    rows += task.count();
    ++count;
  }
  /// Computes the experts and forgets them.
  void run();

private:
  std::span<const ExpertTask> all() const { return {tasks.data(), count}; }
  bool areQuantized() const { return isQuantized(tasks.front().gate.format.kind); }
  /// Whether they are low copies beside float experts: the program has no quantized inputs.
  bool quantizesInputs() const { return instruction.hidden == kNone && areQuantized(); }
  QuantizedRows lowCopyRows(uint32_t width, uint64_t firstRow) const {
    return Engine::Impl::quantizedRows(engine.lowCopyRows, width,
                                       tasks.front().gate.format.activationGroup, firstRow);
  }
  void multiply(std::span<const Product> products, int32_t source) const;
  int32_t gatherRows() const;
  /// gate = activation(gate, up), quantized where the last matrix takes codes.
  void activateRows(const ExpertTask &task) const;
  void storeByRank(const ExpertTask &task) const;
  void addBias(int32_t biases, const ExpertTask &task, uint32_t width, const Rows &products) const;

  Engine::Impl &engine;
  const ExpertsInstruction &instruction;
  const uint32_t topK;
  const Rows gate, up, out;
  std::array<ExpertTask, kMostExperts> tasks;
  size_t count = 0;
  uint32_t rows = 0; // The tasks have together.
};

// Copies the rows of each expert's tokens together; returns the buffer that holds them. A batch of
// one token needs no copy.
int32_t ExpertTasks::gatherRows() const {
  if (engine.rows() == 1)
    return instruction.src;
  const Rows src = engine.buffer(instruction.src), dst = engine.buffer(instruction.gathered);
  for (const ExpertTask &task : all())
    for (uint32_t i = 0; i < task.count(); ++i)
      std::memcpy(dst.data + (task.firstRow + i) * dst.bytesPerRow,
                  src.data + (task.pairs[i] / topK) * src.bytesPerRow, src.bytesPerRow);
  return instruction.gathered;
}

// Adds the bias of the expert to its products of `width` elements, if the layer has biases.
void ExpertTasks::addBias(int32_t biases, const ExpertTask &task, uint32_t width,
                          const Rows &products) const {
  if (const float *all = engine.vector(biases))
    engine.kernels->addBias(products.floats(task.firstRow), products.stride(),
                            all + uint64_t(task.number) * width, task.count(), width,
                            products.floats(task.firstRow), products.stride());
}

// Inputs of low copies are quantized in the same rows for gate and up and then for down.
void ExpertTasks::multiply(std::span<const Product> products, int32_t source) const {
  if (quantizesInputs())
    return engine.multiply(products, engine.lowCopyRows, products.front().w->shape.cols,
                           tasks.front().gate.format.activationGroup);
  engine.multiply(products, source);
}

void ExpertTasks::activateRows(const ExpertTask &task) const {
  const uint32_t width = task.down.shape.cols;
  addBias(instruction.gateBias, task, width, gate);
  addBias(instruction.upBias, task, width, up);
  float *activated = gate.floats(task.firstRow);
  activate(*engine.kernels, engine.artifact->moeLayers[instruction.moeLayer].activation, activated,
           up.floats(task.firstRow), task.count(), width, gate.stride(), activated);
  if (instruction.hidden != kNone)
    engine.kernels->quantizeRows(activated, gate.stride(), task.count(), width,
                                 engine.quantized(instruction.hidden, task.firstRow));
  else if (quantizesInputs())
    engine.kernels->quantizeRows(activated, gate.stride(), task.count(), width,
                                 lowCopyRows(width, task.firstRow));
}

void ExpertTasks::storeByRank(const ExpertTask &task) const {
  const uint32_t hidden = task.down.shape.rows;
  const Rows ranks = engine.buffer(instruction.ranks);
  addBias(instruction.downBias, task, hidden, out);
  for (uint32_t i = 0; i < task.count(); ++i)
    std::memcpy(ranks.floats(task.pairs[i] / topK) + task.pairs[i] % topK * rankStrideOf(hidden),
                out.floats(task.firstRow + i), hidden * sizeof(float));
}

void ExpertTasks::run() {
  const int32_t input = gatherRows();
  const bool isShared = engine.rows() == 1; // All read the one row.
  if (quantizesInputs()) {
    const uint32_t hidden = tasks.front().gate.shape.cols;
    const Rows inputs = engine.buffer(input);
    engine.threads->run(isShared ? 1 : rows, grainFor(hidden * 4),
                        [&](uint64_t begin, uint64_t end, uint32_t) {
                          engine.kernels->quantizeRows(inputs.floats(begin), inputs.stride(),
                                                       static_cast<uint32_t>(end - begin), hidden,
                                                       lowCopyRows(hidden, begin));
                        });
  }
  std::array<Product, 2 * kMostExperts> products;
  for (size_t i = 0; i < count; ++i) {
    const ExpertTask &task = tasks[i];
    const uint32_t from = isShared ? 0 : task.firstRow;
    products[2 * i] = {&task.gate, gate.floats(task.firstRow), gate.stride(), from, task.count()};
    products[2 * i + 1] = {&task.up, up.floats(task.firstRow), up.stride(), from, task.count()};
  }
  multiply({products.data(), 2 * count}, input);
  const uint64_t perExpert =
      divideUp(rows, count) * tasks[0].down.shape.cols * kOperationsToActivate;
  engine.threads->run(count, grainFor(perExpert), [&](uint64_t begin, uint64_t end, uint32_t) {
    for (uint64_t i = begin; i < end; ++i)
      activateRows(tasks[i]);
  });
  for (size_t i = 0; i < count; ++i)
    products[i] = {&tasks[i].down, out.floats(tasks[i].firstRow), out.stride(), tasks[i].firstRow,
                   tasks[i].count()};
  multiply({products.data(), count},
           instruction.hidden == kNone ? instruction.gate : instruction.hidden);
  for (const ExpertTask &task : all())
    storeByRank(task);
  count = rows = 0;
}

} // namespace

/// Computes an expert for a batch that is decoded: each row with the slices that it would find in
/// the cache. Orders the pairs by their slices.
static void computeBySlices(Engine::Impl &engine, const MoeLayerTables &layer, uint32_t expert,
                            const PagedBytes &record, std::span<uint32_t> pairs,
                            ExpertTasks &tasks) {
  const std::vector<uint16_t> &slices = engine.misses.rankSlices;
  std::sort(pairs.begin(), pairs.end(), [&slices](uint32_t a, uint32_t b) {
    return slices[a] != slices[b] ? slices[a] < slices[b] : a < b;
  });
  while (!pairs.empty()) {
    const uint16_t own = slices[pairs.front()];
    size_t count = 1;
    while (count < pairs.size() && slices[pairs[count]] == own)
      ++count;
    tasks.add({&layer.templateOf(expert, own), expert, record, pairs.first(count)});
    tasks.run();
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

/// Computes the experts of the open layer pass as the cache hands them out.
static Status computeDemanded(Engine::Impl &engine, const ExpertsInstruction &instruction,
                              const MoeLayerTables &layer, const Grouping &grouping) {
  // While anything is read, each expert is computed as soon as it is in memory: its pages may be
  // needed, and so may the disk's next request. Otherwise several are computed together.
  const bool isTogether =
      !engine.decodedCache && engine.cache->isIdle() && engine.cache->passCounts().misses == 0;
  ExpertTasks tasks(engine, instruction, grouping.topK);
  std::array<int, kMostExperts> handedOut;
  size_t held = 0;
  const std::vector<uint32_t> &begin = engine.expertBegin;
  auto compute = [&]() -> Status {
    if (held > 0)
      tasks.run();
    for (size_t i = 0; i < held; ++i)
      MOERT_RETURN_IF_ERROR(engine.cache->release(handedOut[i]));
    held = 0;
    return {};
  };
  while (true) {
    MOERT_ASSIGN_OR_RETURN(int index, engine.cache->nextReady());
    if (index < 0)
      break;
    uint32_t expert = grouping.wanted[static_cast<size_t>(index)];
    std::span<uint32_t> pairs(engine.expertRows.data() + begin[expert],
                              begin[expert + 1] - begin[expert]);
    if (engine.decodedCache) {
      computeBySlices(engine, layer, expert, engine.cache->bytes(index), pairs, tasks);
      MOERT_RETURN_IF_ERROR(engine.cache->release(index));
      continue;
    }
    const uint16_t slices = engine.cache->slicesOf(index);
    engine.misses.lowered += engine.lowersPrompt && slices < layer.planned[expert];
    const ExpertTemplate &layout = layer.templateOf(expert, slices);
    if (!tasks.hasRoom(layout, pairs.size()))
      MOERT_RETURN_IF_ERROR(compute());
    tasks.add({&layout, expert, engine.cache->bytes(index), pairs});
    handedOut[held++] = index;
    if (!isTogether)
      MOERT_RETURN_IF_ERROR(compute());
  }
  return compute();
}

Status Engine::Impl::executeExperts(const ExpertsInstruction &instruction,
                                    LayerProfile &layerProfile) {
  const MoeLayerTables &layer = moeLayers[instruction.moeLayer];
  if (!openExperts) // Layerwise execution begins no reads earlier.
    MOERT_RETURN_IF_ERROR(beginExperts(instruction.moeLayer, instruction.experts));
  const Grouping grouping = *std::exchange(openExperts, std::nullopt);
  if (lowersPrompt)
    misses.lowered = misses.skipped = misses.substituted = 0;
  MOERT_RETURN_IF_ERROR(computeDemanded(*this, instruction, layer, grouping));
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
  layerProfile.lowHits += static_cast<uint32_t>(counts.lowHits);
  layerProfile.lowMisses += static_cast<uint32_t>(counts.lowMisses);
  layerProfile.prefetchBytes += counts.prefetchBytes;
  layerProfile.useful += static_cast<uint32_t>(counts.useful);
  layerProfile.ready += static_cast<uint32_t>(counts.ready);
  layerProfile.stalled += static_cast<uint32_t>(counts.stalled);
  layerProfile.cancelled += static_cast<uint32_t>(counts.cancelled);
  layerProfile.promoted += static_cast<uint32_t>(counts.promoted);
  if (isLossy || lowersPrompt) {
    layerProfile.lowered += misses.lowered;
    layerProfile.skipped += misses.skipped;
    layerProfile.substituted += misses.substituted;
  }
  return {};
}

} // namespace moert
