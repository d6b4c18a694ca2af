// Executes the experts of a layer on a device: those that it has, then those that the cache below
// has or reads, each copied while the ones before it are computed.
#include "runtime/base/CheckedMath.h"
#include "runtime/engine/device/DeviceExecutor.h"

#include <algorithm>
#include <array>

namespace moert {

/// Experts that are computed together: their rows of the buffers follow each other.
class DeviceExecutor::ExpertTasks {
public:
  ExpertTasks(DeviceExecutor &computingExecutor, const Step &computedStep,
              const ExpertsInstruction &experts)
      : executor(computingExecutor), step(computedStep), instruction(experts),
        layer(executor.parts.experts.layer(experts.moeLayer)),
        topK(step.bufferInfo(experts.experts).width) {}

  /// An expert of an index of the demand, with its record on the device; `pairs` are its rows and
  /// ranks. Computes those before it where there is no room.
  Status add(uint32_t expert, uint32_t index, const PagedBytes &record,
             std::span<const uint32_t> pairs);
  /// Computes the experts that were added, releases and forgets them.
  Status run();

private:
  static constexpr size_t kMost = device::kMostProducts / 2; // Gate and up in one launch.
  struct Task {
    device::Matrix gate, up, down;
    uint32_t number = 0, index = 0, firstRow = 0, rows = 0;
  };

  device::Product productOf(const Task &task, const device::Matrix &m, int32_t bias,
                            const Rows &results, uint32_t sourceRow) const;
  Status activate();
  bool areQuantized() const { return isQuantized(tasks.front().up.w.format.kind); }

  DeviceExecutor &executor;
  const Step &step;
  const ExpertsInstruction &instruction;
  const MoeLayerTables &layer;
  const uint32_t topK;
  std::array<Task, kMost> tasks;
  size_t count = 0;
  uint32_t rows = 0;
};

Status DeviceExecutor::ExpertTasks::add(uint32_t expert, uint32_t index, const PagedBytes &record,
                                        std::span<const uint32_t> pairs) {
  const ExpertTemplate &layout = layer.templateOf(expert, layer.planned[expert]);
  const bool isOfOtherKind =
      count > 0 && isQuantized(layout.matrices.back().format.kind) != areQuantized();
  if (count == kMost || rows + pairs.size() > step.shape().tokens || isOfOtherKind)
    MOERT_RETURN_IF_ERROR(run());
  const auto matrix = [&](ExpertPart part) {
    WeightView view = layout.matrices[static_cast<size_t>(part)];
    view.bytes = record.from(view.bytes.offset);
    return device::Matrix(view);
  };
  tasks[count++] = {matrix(ExpertPart::kGate),
                    matrix(ExpertPart::kUp),
                    matrix(ExpertPart::kDown),
                    expert,
                    index,
                    rows,
                    static_cast<uint32_t>(pairs.size())};
  std::copy(pairs.begin(), pairs.end(), &executor.hostPairs[executor.pairCount + rows]);
  rows += static_cast<uint32_t>(pairs.size());
  return {};
}

device::Product DeviceExecutor::ExpertTasks::productOf(const Task &task, const device::Matrix &m,
                                                       int32_t bias, const Rows &results,
                                                       uint32_t sourceRow) const {
  const float *const biases = executor.vectorOnDevice(bias);
  return {m,
          biases ? biases + uint64_t(task.number) * m.w.shape.rows : nullptr,
          results.floats(task.firstRow),
          results.stride(),
          sourceRow,
          task.rows};
}

/// gate = activation(gate, up), quantized where the last matrix takes codes.
Status DeviceExecutor::ExpertTasks::activate() {
  const Rows gate = executor.rowsOf(step, instruction.gate);
  const uint32_t width = tasks.front().down.w.shape.cols;
  MOERT_RETURN_IF_ERROR(executor.submitKernel(device::ActivateRows{
      executor.parts.artifact.moeLayers[instruction.moeLayer].activation, gate.floats(),
      executor.rowsOf(step, instruction.up).floats(), gate.stride(), rows, width, gate.floats()}));
  if (instruction.hidden == kNone)
    return {};
  const QuantizedRows hidden = executor.quantizedOf(step, instruction.hidden);
  return executor.submitKernel(device::QuantizeRows{gate.floats(), gate.stride(), rows, width,
                                                    hidden,
                                                    hadamardInputFactor(hidden.hadamardBlock)});
}

Status DeviceExecutor::ExpertTasks::run() {
  if (count == 0)
    return {};
  auto *const pairs = executor.pairs.as<uint32_t>() + executor.pairCount;
  MOERT_RETURN_IF_ERROR(executor.gpu.copy(device::kComputeStream, pairs,
                                          &executor.hostPairs[executor.pairCount],
                                          rows * sizeof(uint32_t)));
  executor.pairCount += rows;
  const bool isShared = step.rows() == 1; // All read the one row.
  const int32_t input = isShared ? instruction.src : instruction.gathered;
  if (!isShared) {
    const Rows src = executor.rowsOf(step, instruction.src), dst = executor.rowsOf(step, input);
    MOERT_RETURN_IF_ERROR(executor.submitKernel(device::CopyRows{
        src.data, src.bytesPerRow, pairs, nullptr, topK, rows,
        static_cast<uint32_t>(std::min(src.bytesPerRow, dst.bytesPerRow) / sizeof(uint32_t)),
        dst.data, dst.bytesPerRow}));
  }
  const Rows gate = executor.rowsOf(step, instruction.gate),
             up = executor.rowsOf(step, instruction.up),
             out = executor.rowsOf(step, instruction.dst);
  const bool isGated =
      hasGate(executor.parts.artifact.moeLayers[instruction.moeLayer].activation.kind);
  std::array<device::Product, device::kMostProducts> products;
  size_t productCount = 0;
  for (const Task &task : std::span(tasks).first(count)) {
    const uint32_t row = isShared ? 0 : task.firstRow;
    if (isGated)
      products[productCount++] = productOf(task, task.gate, instruction.gateBias, gate, row);
    products[productCount++] = productOf(task, task.up, instruction.upBias, up, row);
  }
  MOERT_RETURN_IF_ERROR(executor.multiply(step, input, std::span(products).first(productCount)));
  MOERT_RETURN_IF_ERROR(activate());
  for (size_t i = 0; i < count; ++i)
    products[i] = productOf(tasks[i], tasks[i].down, instruction.downBias, out, tasks[i].firstRow);
  const int32_t hidden = instruction.hidden == kNone ? instruction.gate : instruction.hidden;
  MOERT_RETURN_IF_ERROR(executor.multiply(step, hidden, std::span(products).first(count)));
  const uint32_t width = tasks.front().down.w.shape.rows;
  const Rows ranks = executor.rowsOf(step, instruction.ranks);
  MOERT_RETURN_IF_ERROR(executor.submitKernel(
      device::CopyRows{out.data, out.bytesPerRow, nullptr, pairs, 1, rows, width, ranks.data,
                       roundUp(width, kRankRowElements) * sizeof(float)}));
  for (const Task &task : std::span(tasks).first(count))
    MOERT_RETURN_IF_ERROR(executor.tier->release(task.index));
  count = rows = 0;
  return {};
}

//===-- A layer pass --------------------------------------------------------------------------===//

Status DeviceExecutor::demandBelow(const Step &step, uint32_t moeLayer) {
  const std::span<const uint32_t> reads = tier->takeReads();
  below.assign(reads.begin(), reads.end());
  std::sort(below.begin(), below.end());
  belowWanted.clear();
  belowUses.clear();
  for (uint32_t index : below) {
    belowWanted.push_back(grouping.wanted()[index]);
    belowUses.push_back(grouping.uses()[index]);
  }
  return parts.experts.cache().beginLayer(parts.experts.cached(moeLayer),
                                          {belowWanted, belowUses, step.rows()});
}

Status DeviceExecutor::beginExperts(Step &step, uint32_t moeLayer, int32_t experts) {
  const uint32_t count = parts.experts.layer(moeLayer).experts();
  grouping.group(step, step.buffer(experts), step.bufferInfo(experts).width, count, {});
  pairCount = 0;
  MOERT_RETURN_IF_ERROR(tier->beginPass(parts.experts.cached(moeLayer),
                                        {grouping.wanted(), grouping.uses(), step.rows()}));
  MOERT_RETURN_IF_ERROR(demandBelow(step, moeLayer));
  areExpertsOpen = true;
  return {};
}

Status DeviceExecutor::computeReady(Step &step, ExpertTasks &tasks) {
  while (const std::optional<uint32_t> index = tier->nextReady()) {
    const uint32_t expert = grouping.wanted()[*index];
    MOERT_RETURN_IF_ERROR(
        tasks.add(expert, *index, tier->bytes(*index), grouping.pairsOf(step, expert)));
  }
  return tasks.run();
}

/// The cache may reuse an expert's pages once they are copied, which is while it is computed.
Status DeviceExecutor::takeFromBelow(Step &step, ExpertTasks &tasks) {
  ExpertCache &cache = parts.experts.cache();
  while (true) {
    MOERT_ASSIGN_OR_RETURN(const int index, cache.nextReady());
    if (index < 0)
      return cache.endLayer();
    MOERT_RETURN_IF_ERROR(tier->arrive(below[static_cast<size_t>(index)], cache.bytes(index)));
    MOERT_RETURN_IF_ERROR(computeReady(step, tasks));
    MOERT_RETURN_IF_ERROR(gpu.finish(deviceEvents::kCopied));
    MOERT_RETURN_IF_ERROR(cache.release(index));
  }
}

Status DeviceExecutor::executeExperts(Step &step, const ExpertsInstruction &instruction,
                                      LayerProfile &layerProfile) {
  areExpertsOpen = false;
  const Rows factors = step.buffer(instruction.weights);
  MOERT_RETURN_IF_ERROR(gpu.copy(device::kComputeStream, onDevice(factors.data), factors.data,
                                 factors.bytesPerRow * step.rows()));
  ExpertTasks tasks(*this, step, instruction);
  MOERT_RETURN_IF_ERROR(computeReady(step, tasks));
  while (true) {
    MOERT_RETURN_IF_ERROR(takeFromBelow(step, tasks));
    countPass(layerProfile);
    if (tier->isAllHandedOut())
      break;
    // Others found no room beside those before them.
    MOERT_RETURN_IF_ERROR(demandBelow(step, instruction.moeLayer));
    if (below.empty())
      return failed("a layer pass of a device has no room for an expert");
  }
  MOERT_ASSIGN_OR_RETURN(const CacheCounts counts, tier->endPass());
  layerProfile.hits += static_cast<uint32_t>(counts.hits);

  const uint32_t hidden = step.bufferInfo(instruction.dst).width;
  const Rows ranks = rowsOf(step, instruction.ranks), dst = rowsOf(step, instruction.dst);
  return submitKernel(device::CombineRanks{
      ranks.floats(), onDevice(factors.floats()), ranks.stride(), roundUp(hidden, kRankRowElements),
      factors.stride(), dst.stride(), step.rows(), hidden,
      step.bufferInfo(instruction.experts).width, dst.floats()});
}

} // namespace moert
