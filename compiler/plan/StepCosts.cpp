#include "compiler/plan/StepCosts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

using namespace moert;

namespace moec {

namespace {

/// Walks the operations of a step and splits them at its MoE layers.
class CostWalk {
public:
  CostWalk(const ModelFacts &facts, const DeviceProfile &device, const StepUse &use)
      : operations(facts.decode), times(device, use), timesOfFewer(device, use) {
    costs.layers.resize(facts.topK.size());
    costs.contention = {device.fractionWhileComputing.value, device.fractionWhileReading.value,
                        device.submitNsPerMiB.value / (1 << 20), device.wakeNs.value};
    for (const Quantity &shared : {device.fractionWhileComputing, device.fractionWhileReading,
                                   device.submitNsPerMiB, device.wakeNs})
      contention = worseOf(contention, shared.origin);
  }

  StepCosts walk() {
    for (const StepOperation &operation : operations)
      std::visit(*this, operation);
    costs.after = sinceCut;
    costs.origin = worseOf(contention, times.origin());
    return std::move(costs);
  }

  void operator()(const ProductsStep &step) { sinceCut += times.products(step.matrices); }
  void operator()(const AttentionStep &step) { sinceCut += times.attention(step.shape); }
  void operator()(const HeadStep &step) { sinceCut.firstNs += times.product(step.matrix).firstNs; }
  void operator()(const RouteStep &step) {
    before += std::exchange(sinceCut, {});
    router = step.router;
  }
  void operator()(const ExpertsStep &step) {
    costs.layers[step.moeLayer] = {.before = std::exchange(before, {}),
                                   .beside = std::exchange(sinceCut, {}),
                                   .expert = expertCost(times, step, UINT32_MAX),
                                   .checks = checksOf(step),
                                   .predictNs = gateCosts(),
                                   .firstSlices = firstSlicesCosts(step)};
  }

private:
  /// Time per router, if so many routers like this layer's are computed in one product.
  std::array<double, kMostAhead> gateCosts() {
    std::array<double, kMostAhead> each{};
    if (!router)
      return each;
    const std::vector<StoredMatrix> gates(kMostAhead, *router);
    for (size_t count = 1; count <= gates.size(); ++count)
      each[count - 1] =
          times.products(std::span(gates).first(count)).firstNs / static_cast<double>(count);
    return each;
  }

  /// An expert of mean width with at most so many of its slices.
  static TokenCost expertCost(OperationTimes &times, const ExpertsStep &step, uint32_t slices) {
    TokenCost sum;
    for (const StoredExpert &expert : step.experts) {
      const bool isLow = slices <= expert.lowCopySlices;
      const ExpertProducts &weights = isLow ? expert.lowCopyWeights : expert.weights;
      const uint32_t first = isLow ? slices : slices - expert.lowCopySlices;
      const bool isWhole = first >= (isLow ? expert.lowCopySlices : expert.slices);
      const auto partOf = [&](std::string_view all) {
        return isWhole ? all : firstSlices(all, first);
      };
      const StoredMatrix in{partOf(weights.gateUp), step.inner, step.hidden};
      sum += times.network(in, in, {partOf(weights.down), step.hidden, step.inner});
    }
    const auto experts = static_cast<double>(step.experts.size());
    return {sum.firstNs / experts, sum.furtherNs / experts};
  }

  /// "int2+2" of "int2+2+4" and 2; all where the matrix has fewer slices. Slices of which there are
  /// several have one plane each.
  static std::string_view firstSlices(std::string_view weights, uint32_t slices) {
    size_t end = 0;
    for (uint32_t i = 0; i < slices && end != std::string_view::npos; ++i)
      end = weights.find('+', end + (i > 0));
    return weights.substr(0, end);
  }

  std::vector<TokenCost> firstSlicesCosts(const ExpertsStep &step) {
    uint32_t most = 1;
    for (const StoredExpert &expert : step.experts)
      most = std::max(most, expert.lowCopySlices + expert.slices);
    std::vector<TokenCost> each;
    for (uint32_t slices = 1; slices < most; ++slices)
      each.push_back(expertCost(timesOfFewer, step, slices));
    return each;
  }

  /// The checksums of an expert of mean size and mean number of slices.
  CheckCost checksOf(const ExpertsStep &step) {
    double bytes = 0, slices = 0;
    for (const StoredExpert &expert : step.experts) {
      bytes += static_cast<double>(expert.payloadBytes);
      slices += expert.slices;
    }
    const auto experts = static_cast<double>(step.experts.size());
    return times.checks(bytes / experts,
                        std::max(1u, static_cast<uint32_t>(std::lround(slices / experts))));
  }

  const std::vector<StepOperation> &operations;
  OperationTimes times;
  OperationTimes timesOfFewer; // Its own: the origin of the costs is that of plans that wait.
  StepCosts costs;
  Origin contention = Origin::kMeasured;
  TokenCost before, sinceCut;         // Up to the last router; since it or the last experts.
  std::optional<StoredMatrix> router; // For the next experts' layer.
};

} // namespace

StepCosts stepCostsOf(const ModelFacts &facts, const DeviceProfile &device, const StepUse &use) {
  return CostWalk(facts, device, use).walk();
}

} // namespace moec
