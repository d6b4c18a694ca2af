// Executes the experts of a layer: each is read at most once per batch and computed for all of its
// tokens as soon as it is in memory. Results are stored by rank and summed in the router's order
// when all are complete, so the order of arrival never affects the output.
#include "runtime/engine/Executor.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace moert {

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

} // namespace

/// Computes experts of one layer in three parallel runs, however many they are: an expert with a
/// token or two has too little work for runs of its own.
class Executor::ExpertTasks {
public:
  ExpertTasks(const Executor &computingExecutor, const Step &computedStep,
              const ExpertsInstruction &experts)
      : executor(computingExecutor), kernels(executor.parts.kernels),
        threads(executor.parts.threads), step(computedStep), instruction(experts),
        topK(step.bufferInfo(experts.experts).width), gate(step.buffer(experts.gate)),
        up(step.buffer(experts.up)), out(step.buffer(experts.dst)) {}

  /// Whether there is room for such an expert with so many tokens.
  bool hasRoom(const ExpertTemplate &layout, size_t pairs) const {
    return count == 0 || (count < kMostExperts &&
                          rows + pairs <= uint64_t(step.shape().tokens) * step.rowsPerToken &&
                          isQuantized(layout.matrices.back().format.kind) == areQuantized());
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
  bool areQuantized() const { return isQuantized(tasks.front().up.format.kind); }
  const GluActivation &activation() const {
    return executor.parts.artifact.moeLayers[instruction.moeLayer].activation;
  }
  /// Whether they are low copies beside float experts: the program has no quantized inputs.
  bool quantizesInputs() const { return instruction.hidden == kNone && areQuantized(); }
  QuantizedRows lowCopyRows(uint32_t width, uint64_t firstRow) const {
    return step.lowCopyRows.quantized(width, tasks.front().up.format.activationGroup, firstRow);
  }
  void multiply(std::span<const Product> products, int32_t source) const;
  int32_t gatherRows() const;
  /// gate = activation(gate, up), quantized where the last matrix takes codes.
  void activateRows(const ExpertTask &task) const;
  void storeByRank(const ExpertTask &task) const;
  void addBias(int32_t biases, const ExpertTask &task, uint32_t width, const Rows &products) const;

  const Executor &executor;
  const KernelTable &kernels;
  ThreadPool &threads;
  const Step &step;
  const ExpertsInstruction &instruction;
  const uint32_t topK;
  const Rows gate, up, out;
  std::array<ExpertTask, kMostExperts> tasks;
  size_t count = 0;
  uint32_t rows = 0; // The tasks have together.
};

// Copies the rows of each expert's tokens together; returns the buffer that holds them. A batch of
// one token needs no copy.
int32_t Executor::ExpertTasks::gatherRows() const {
  if (step.rows() == 1)
    return instruction.src;
  const Rows src = step.buffer(instruction.src), dst = step.buffer(instruction.gathered);
  for (const ExpertTask &task : all())
    for (uint32_t i = 0; i < task.count(); ++i)
      std::memcpy(dst.data + (task.firstRow + i) * dst.bytesPerRow,
                  src.data + (task.pairs[i] / topK) * src.bytesPerRow, src.bytesPerRow);
  return instruction.gathered;
}

// Adds the bias of the expert to its products of `width` elements, if the layer has biases.
void Executor::ExpertTasks::addBias(int32_t biases, const ExpertTask &task, uint32_t width,
                                    const Rows &products) const {
  if (const float *all = executor.vector(biases))
    kernels.addBias(products.floats(task.firstRow), products.stride(),
                    all + uint64_t(task.number) * width, task.count(), width,
                    products.floats(task.firstRow), products.stride());
}

// Inputs of low copies are quantized in the same rows for gate and up and then for down.
void Executor::ExpertTasks::multiply(std::span<const Product> products, int32_t source) const {
  if (quantizesInputs())
    return executor.multiply(products, step.lowCopyRows, products.front().w->shape.cols,
                             tasks.front().up.format.activationGroup);
  executor.multiply(step, products, source);
}

void Executor::ExpertTasks::activateRows(const ExpertTask &task) const {
  const uint32_t width = task.down.shape.cols;
  if (hasGate(activation().kind))
    addBias(instruction.gateBias, task, width, gate);
  addBias(instruction.upBias, task, width, up);
  float *activated = gate.floats(task.firstRow);
  activate(kernels, activation(), activated, up.floats(task.firstRow), task.count(), width,
           gate.stride(), activated);
  if (instruction.hidden != kNone)
    kernels.quantizeRows(activated, gate.stride(), task.count(), width,
                         step.quantized(instruction.hidden, task.firstRow));
  else if (quantizesInputs())
    kernels.quantizeRows(activated, gate.stride(), task.count(), width,
                         lowCopyRows(width, task.firstRow));
}

void Executor::ExpertTasks::storeByRank(const ExpertTask &task) const {
  const uint32_t hidden = task.down.shape.rows;
  const Rows ranks = step.buffer(instruction.ranks);
  addBias(instruction.downBias, task, hidden, out);
  for (uint32_t i = 0; i < task.count(); ++i)
    std::memcpy(ranks.floats(task.pairs[i] / topK) + task.pairs[i] % topK * rankStrideOf(hidden),
                out.floats(task.firstRow + i), hidden * sizeof(float));
}

void Executor::ExpertTasks::run() {
  const int32_t input = gatherRows();
  const bool isShared = step.rows() == 1; // All read the one row.
  if (quantizesInputs()) {
    const uint32_t hidden = tasks.front().up.shape.cols;
    const Rows inputs = step.buffer(input);
    threads.run(isShared ? 1 : rows, grainFor(hidden * 4),
                [&](uint64_t begin, uint64_t end, uint32_t) {
                  kernels.quantizeRows(inputs.floats(begin), inputs.stride(),
                                       static_cast<uint32_t>(end - begin), hidden,
                                       lowCopyRows(hidden, begin));
                });
  }
  std::array<Product, 2 * kMostExperts> products;
  size_t productCount = 0;
  for (const ExpertTask &task : all()) {
    const uint32_t from = isShared ? 0 : task.firstRow;
    if (hasGate(activation().kind))
      products[productCount++] = {&task.gate, gate.floats(task.firstRow), gate.stride(), from,
                                  task.count()};
    products[productCount++] = {&task.up, up.floats(task.firstRow), up.stride(), from,
                                task.count()};
  }
  multiply({products.data(), productCount}, input);
  const uint64_t perExpert =
      divideUp(rows, count) * tasks[0].down.shape.cols * kOperationsToActivate;
  threads.run(count, grainFor(perExpert), [&](uint64_t begin, uint64_t end, uint32_t) {
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

void Executor::computeBySlices(const MoeLayerTables &layer, uint32_t expert,
                               const PagedBytes &record, std::span<uint32_t> pairs,
                               std::span<const uint16_t> slices, ExpertTasks &tasks) {
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

Status Executor::beginExperts(Step &step, uint32_t moeLayer, int32_t experts) {
  const MoeLayerTables &layer = parts.experts.layer(moeLayer);
  grouping.group(step, step.buffer(experts), step.bufferInfo(experts).width, layer.experts(),
                 ranksTaken(step));
  PassDemand demand = {grouping.wanted(), grouping.uses(), step.rows(), {}};
  if (step.isLossy || step.lowersPrompt)
    demand.slices = parts.misses->slicesOf(step, layer, grouping.wanted());
  if (const ImportanceMeter *measuring = meter())
    demand.importances = measuring->importances(layer.experts());
  const Status begun = parts.experts.cache().beginLayer(parts.experts.cached(moeLayer), demand);
  areExpertsOpen = begun.isOk();
  return begun;
}

/// Computes the experts of the open layer pass as the cache hands them out.
Status Executor::computeDemanded(Step &step, const ExpertsInstruction &instruction) {
  const MoeLayerTables &layer = parts.experts.layer(instruction.moeLayer);
  ExpertCache &cache = parts.experts.cache();
  const bool decodesBatch = parts.misses && parts.misses->decoded();
  // While anything is read, each expert is computed as soon as it is in memory: its pages may be
  // needed, and so may the disk's next request. Otherwise several are computed together.
  const bool isTogether = !decodesBatch && cache.isIdle() && cache.passCounts().misses == 0;
  ExpertTasks tasks(*this, step, instruction);
  std::array<int, kMostExperts> handedOut;
  size_t held = 0;
  auto compute = [&]() -> Status {
    if (held > 0)
      tasks.run();
    for (size_t i = 0; i < held; ++i)
      MOERT_RETURN_IF_ERROR(cache.release(handedOut[i]));
    held = 0;
    return {};
  };
  while (true) {
    MOERT_ASSIGN_OR_RETURN(const int index, cache.nextReady());
    if (index < 0)
      break;
    const uint32_t expert = grouping.wanted()[static_cast<size_t>(index)];
    const std::span<uint32_t> pairs = grouping.pairsOf(step, expert);
    if (decodesBatch) {
      computeBySlices(layer, expert, cache.bytes(index), pairs, parts.misses->rankSlices(), tasks);
      MOERT_RETURN_IF_ERROR(cache.release(index));
      continue;
    }
    const uint16_t slices = cache.slicesOf(index);
    if (step.lowersPrompt && slices < layer.planned[expert])
      parts.misses->countLowered(1);
    const ExpertTemplate &layout = layer.templateOf(expert, slices);
    if (!tasks.hasRoom(layout, pairs.size()))
      MOERT_RETURN_IF_ERROR(compute());
    tasks.add({&layout, expert, cache.bytes(index), pairs});
    handedOut[held++] = index;
    if (!isTogether)
      MOERT_RETURN_IF_ERROR(compute());
  }
  return compute();
}

void Executor::countPass(LayerProfile &layerProfile) const {
  const ExpertCache &cache = parts.experts.cache();
  layerProfile.bytesRead += cache.passCounts().bytesRead;
  const CacheCounts &counts =
      parts.misses && parts.misses->decoded() ? parts.misses->rowCounts() : cache.passCounts();
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
}

Status Executor::executeExperts(Step &step, const ExpertsInstruction &instruction,
                                LayerProfile &layerProfile) {
  ExpertCache &cache = parts.experts.cache();
  if (!areExpertsOpen) // Layerwise execution begins no reads earlier.
    MOERT_RETURN_IF_ERROR(beginExperts(step, instruction.moeLayer, instruction.experts));
  areExpertsOpen = false;
  if (step.lowersPrompt)
    parts.misses->beginPromptLayer();
  MOERT_RETURN_IF_ERROR(computeDemanded(step, instruction));
  MOERT_RETURN_IF_ERROR(cache.endLayer());

  const uint32_t hidden = step.bufferInfo(instruction.dst).width;
  const Rows weights = step.buffer(instruction.weights), ranks = step.buffer(instruction.ranks),
             dst = step.buffer(instruction.dst);
  const uint32_t topK = step.bufferInfo(instruction.experts).width;
  const Rows experts = step.buffer(instruction.experts);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    for (uint32_t rank = 0; isLimited[instruction.moeLayer] && rank < topK; ++rank)
      if (experts.integers(row)[rank] == kNone)
        std::fill_n(ranks.floats(row) + rank * rankStrideOf(hidden), hidden, 0.0f);
    parts.kernels.combineRanks(ranks.floats(row), rankStrideOf(hidden), weights.floats(row),
                               ranksOf(step, row, topK), hidden, dst.floats(row));
  }

  countPass(layerProfile);
  if (step.isLossy || step.lowersPrompt)
    parts.misses->addTo(layerProfile);
  return {};
}

} // namespace moert
