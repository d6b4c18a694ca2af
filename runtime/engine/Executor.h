// Executes instructions on the CPU. Instruction.h defines them and Kernels.h the arithmetic; this
// finds the operands and distributes the work over the threads.
#pragma once

#include "runtime/base/ThreadPool.h"
#include "runtime/engine/ExpertStore.h"
#include "runtime/engine/Grouping.h"
#include "runtime/engine/ImportanceMeter.h"
#include "runtime/engine/MissDecisions.h"
#include "runtime/engine/ResidentWeights.h"
#include "runtime/engine/Router.h"
#include "runtime/engine/Step.h"
#include "runtime/format/NgramRows.h"
#include "runtime/policy/PositionBuckets.h"

#include <optional>
#include <span>
#include <vector>

namespace moert {

/// y[rows] = w * x, for `rows` rows from firstRow on of a buffer.
struct Product {
  const WeightView *w;
  float *y;
  uint64_t yStride;
  uint32_t firstRow, rows;
};

/// Multiply-adds that justify waking another thread: some microseconds of work.
constexpr uint64_t kGrainOperations = 64 * 1024;

/// Indices of a parallel run that one thread should have at least.
constexpr uint64_t grainFor(uint64_t operationsPerIndex) {
  return std::max<uint64_t>(1, kGrainOperations / std::max<uint64_t>(1, operationsPerIndex));
}

/// What an executor works with; all of it outlives the executor.
struct ExecutorParts {
  const Artifact &artifact;
  const KernelTable &kernels;
  ThreadPool &threads;
  const ResidentWeights &weights;
  ExpertStore &experts;
  MissDecisions *misses = nullptr;         // Null: every expert is waited for.
  ImportanceMeter *importances = nullptr;  // Null: no plan's eviction is by importance.
  const Program *predictingFrom = nullptr; // Whose predict instructions prefetch; null: none.
};

class Executor {
public:
  explicit Executor(const ExecutorParts &executorParts);
  virtual ~Executor() = default;

  /// Executes the step's program. The step has begun (Step::begin).
  Status run(Step &step);
  /// Executes an instruction, or several that are joined, in one parallel run.
  virtual Status submit(Step &step, std::span<const Instruction> joined,
                        LayerProfile &layerProfile);

  const KernelTable &kernels() const { return parts.kernels; }
  const float *vector(int32_t index) const { return parts.weights.vector(index); }
  Router routerOf(const RouteInstruction &route) const;
  /// y = w * x for `count` rows of the buffer `source`, from firstRow on; x is float, or quantized
  /// if w is.
  void multiply(const Step &step, const WeightView &w, int32_t source, uint32_t firstRow,
                uint32_t count, float *y, uint64_t yStride) const {
    const Product product = {&w, y, yStride, firstRow, count};
    multiply(step, {&product, 1}, source);
  }
  /// Several products of one buffer in one parallel run.
  void multiply(const Step &step, std::span<const Product> products, int32_t source) const;
  /// The same for rows of other memory; a group of 0: floats.
  void multiply(std::span<const Product> products, const Rows &rows, uint32_t width,
                uint32_t group) const;

protected:
  // What a device executes in another way (DeviceExecutor.h).
  /// Before the first and after the last instruction of a step.
  virtual Status beginStep(Step &) { return {}; }
  virtual Status endStep(Step &) { return {}; }
  virtual Status executeLinears(Step &step, std::span<const LinearInstruction> linears);
  /// Products that scores are computed from can be read afterwards.
  virtual Status bringToHost(Step &, int32_t /*buffer*/) { return {}; }
  /// Rows [firstRow, firstRow + count) of the head's product, in the step's rows of logits.
  virtual Status multiplyHead(Step &step, const HeadInstruction &head, uint32_t firstRow,
                              uint32_t count);
  /// Starts reading the routed experts, so that reads overlap the instructions between this one and
  /// the experts. `experts` is the buffer of their numbers.
  virtual Status beginExperts(Step &step, uint32_t moeLayer, int32_t experts);
  virtual Status executeExperts(Step &step, const ExpertsInstruction &experts,
                                LayerProfile &layerProfile);
  /// Adds what the cache counted in the layer pass that was closed last.
  void countPass(LayerProfile &layerProfile) const;

  const ExecutorParts parts;
  Grouping grouping;           // Sized once, for the layer with the most experts.
  bool areExpertsOpen = false; // Set while a layer's experts are being read.

private:
  class ExpertTasks;

  /// Biases [bucket][head] of an attention's scores.
  struct PositionBias {
    const float *table;
    const PositionBuckets &buckets;
  };

  /// Times that the cache has spent in total; valid between instructions.
  struct CacheTime {
    uint64_t waitNs, verifyNs, submitNs;
  };
  CacheTime cacheTime() const;
  /// Counts the time of joined instructions; of products in proportion to their weight bytes.
  void countTime(Step &step, std::span<const Instruction> joined, uint64_t computeNs) const;
  /// Calls work(first row, rows) in parallel for all rows of the step.
  template <class Work> void forRows(const Step &step, uint64_t operations, Work work) const {
    parts.threads.run(step.rows(), grainFor(operations),
                      [&](uint64_t begin, uint64_t end, uint32_t) {
                        work(begin, static_cast<uint32_t>(end - begin));
                      });
  }

  // Execute.cpp
  void execute(Step &step, const EmbedInstruction &embed);
  void execute(Step &step, const EmbedPositionInstruction &embed);
  void execute(Step &step, const NormInstruction &norm);
  void execute(Step &step, const QuantizeInstruction &quantize);
  void execute(Step &step, const LinearHeadsInstruction &linear);
  void execute(Step &step, const ActivateInstruction &activate);
  void execute(Step &step, const AddInstruction &add);
  void execute(Step &step, const ScaleInstruction &scale);
  void execute(Step &step, const ClampInstruction &clamp);
  void execute(Step &step, const ScaleByPositionInstruction &scale) {
    scaleByPeriods(step, scale, 1);
  }
  void execute(Step &step, const ScaleByPeriodInstruction &scale) {
    scaleByPeriods(step, scale, 0);
  }
  /// Counts the periods up to position + ahead.
  void scaleByPeriods(Step &step, const PeriodOperands &scale, uint32_t ahead);
  void execute(Step &step, const ScaleInputInstruction &scale);
  void execute(Step &step, const GateRowsInstruction &gate);
  void execute(Step &step, const ScaleRowsInstruction &scale);
  Status execute(Step &step, const RouteInstruction &route);
  void execute(Step &step, const MaskExpertsInstruction &mask);
  std::span<const float> listedExperts(const Step &step, const MaskExpertsInstruction &mask,
                                       uint32_t row);
  /// Puts the experts of a row, all of them in the mask's table, into its order.
  void orderAsListed(const Step &step, const MaskExpertsInstruction &mask, uint32_t row,
                     std::span<int32_t> experts, std::span<float> weights);
  void execute(Step &step, const CapacityInstruction &limit);
  /// Gives the observer the choices of a row, which are final.
  void reportRoute(const Step &step, const RouteInstruction &route, uint32_t row) const;
  Status execute(Step &step, const HeadInstruction &head);
  // ExecuteState.cpp
  void execute(Step &step, const GateInstruction &gate);
  void execute(Step &step, const ApplyInstruction &apply);
  void execute(Step &step, const StateSpaceInstruction &space);
  void execute(Step &step, const SelectiveScanInstruction &scan);
  void execute(Step &step, const UnitNormInstruction &norm);
  void execute(Step &step, const DecayInstruction &decay) { decayRows(step, decay, 0); }
  void execute(Step &step, const BoundedDecayInstruction &decay) {
    decayRows(step, decay, decay.bound);
  }
  void decayRows(Step &step, const DecayOperands &decay, float bound);
  void execute(Step &step, const ConvolveInstruction &convolve);
  void execute(Step &step, const DeltaRuleInstruction &rule);
  void execute(Step &step, const PoolInstruction &pool);
  void execute(Step &step, const EmbedNgramsInstruction &embed);
  /// Calls work(row, first, last, state) for the elements [first, last) of the rows of a state,
  /// which are 0 before the first token.
  template <class Work>
  void forColumns(const Step &step, uint32_t slot, uint64_t operations, Work work) const;
  /// Calls work(row, head, state) for the matrices of a state, `passes` over each. Head by head: it
  /// stays in the processor's cache over all rows.
  template <class Work>
  void forHeads(const Step &step, uint32_t slot, uint32_t heads, uint32_t passes, Work work) const;
  // ExecuteStreams.cpp
  void execute(Step &step, const RepeatRowInstruction &repeat);
  void execute(Step &step, const MeanStreamsInstruction &mean);
  void execute(Step &step, const DotStreamsInstruction &dot);
  void execute(Step &step, const StreamWeightsInstruction &weights);
  void execute(Step &step, const MergeStreamsInstruction &merge);
  void execute(Step &step, const UpdateStreamsInstruction &update);
  /// Calls work(row, first, elements) in parallel for the elements of rows of `width`, `passes` of
  /// the streams at each.
  template <class Work>
  void forElements(const Step &step, uint32_t width, uint32_t passes, Work work) const;
  // ExecuteAttention.cpp
  void execute(Step &step, const AddPositionInstruction &add);
  void execute(Step &step, const AttendRangeInstruction &attend);
  void execute(Step &step, const RopeInstruction &rope);
  void execute(Step &step, const StoreKvInstruction &store);
  void execute(Step &step, const AttendInstruction &attend);
  void execute(Step &step, const ChooseKeysInstruction &choose);
  void execute(Step &step, const AttendChosenInstruction &attend);
  void execute(Step &step, const RopePartInstruction &rope);
  void execute(Step &step, const StoreKeyInstruction &store);
  void execute(Step &step, const ChoosePoolsInstruction &choose);
  void execute(Step &step, const ListPoolsInstruction &list);
  void execute(Step &step, const AttendPoolsInstruction &attend);
  template <class KeysOf>
  void attendRows(const Step &step, const AttentionOperands &attend, const KvSlot &slot,
                  uint64_t longest, const float *sinks, const PositionBias *bias,
                  KeysOf keysOf) const;
  /// Attends to the keys of the row's list in `chosen`.
  void attendListed(const Step &step, const ListedAttention &attend, const KvSlot &slot,
                    uint32_t keysPerToken, const float *sinks) const;
  template <class KeysOf, class Finish>
  void chooseRows(const Step &step, const ChoiceOperands &choose, uint32_t most, KeysOf keysOf,
                  Finish finish) const;
  // ExecuteImages.cpp
  void execute(Step &step, const PatchesInstruction &patches);
  void execute(Step &step, const AttendWindowsInstruction &attend);
  void execute(Step &step, const MergePatchesInstruction &merge);
  void execute(Step &step, const MeanRowsInstruction &mean);
  // ExecuteExperts.cpp
  Status computeDemanded(Step &step, const ExpertsInstruction &experts);
  /// Computes an expert for a batch that is decoded: each row with the slices that it would find in
  /// the cache. Orders the pairs by their slices.
  static void computeBySlices(const MoeLayerTables &layer, uint32_t expert,
                              const PagedBytes &record, std::span<uint32_t> pairs,
                              std::span<const uint16_t> slices, ExpertTasks &tasks);
  /// How many of each row's experts, the first ones, take part; empty: all.
  std::span<const uint32_t> ranksTaken(const Step &step) const {
    return step.isLossy ? parts.misses->ranksTaken() : std::span<const uint32_t>();
  }
  /// The same for a row with topK experts.
  uint32_t ranksOf(const Step &step, uint32_t row, uint32_t topK) const {
    return step.isLossy ? parts.misses->ranksTaken()[row] : topK;
  }
  /// Null where importance is not measured.
  ImportanceMeter *meter() const {
    return parts.importances && parts.importances->isOn() ? parts.importances : nullptr;
  }
  // ExecutePredict.cpp
  /// Executes predictions whose gates are stacked into one product.
  Status executePredicts(Step &step, std::span<const Instruction> predicts);
  /// Call after the product of its gate, if it has one.
  void namePrefetch(Step &step, const PredictInstruction &predict);
  /// Stores the choice of all rows, one after the other, for the activation-path table.
  void rememberChosen(Step &step, const RouteInstruction &route) const;

  // Sized once, for the layer with the most experts.
  std::vector<float> probabilities;                  // One row.
  std::vector<float> listed;                         // A row of a mask's table.
  std::vector<std::optional<NgramRows>> ngrams;      // By state slot.
  std::vector<uint32_t> places;                      // Taken of each expert's capacity.
  std::vector<bool> isLimited;                       // MoE layers with a capacity.
  const MaskExpertsInstruction *masked = nullptr;    // Executed before the next route.
  PositionBuckets positionBuckets;                   // The last ones that an attention used.
  std::vector<const RouteInstruction *> predicted;   // The routes of predictingFrom, by MoE layer.
  std::vector<uint32_t> prefetchProbabilities;       // Per expert of a layer, over all rows.
  std::vector<PrefetchCandidate> prefetchCandidates; // The same, most probable first.
  std::vector<uint16_t> prefetchSlices;              // With which each is read.
};

} // namespace moert
