#include "compiler/planning/StepCosts.h"

#include "runtime/engine/ProductLimits.h"
#include "runtime/format/WeightLayout.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

using namespace moert;

namespace moec {

static_assert(kOutputsTogether == kPanelRows);

static const Program &decodeProgramOf(const Artifact &artifact) {
  auto found = std::find_if(artifact.programs.begin(), artifact.programs.end(),
                            [](const Program &program) { return program.name == "decode"; });
  assert(found != artifact.programs.end() && "a reader refuses artifacts without");
  return *found;
}

std::string_view productWeightsOf(const Expert &expert) {
  std::string name = strCat(nameOf(expert.slices.front().format.kind));
  for (size_t i = 1; i < expert.slices.size(); ++i)
    name = strCat(name, "+", bitsOf(expert.slices[i].format.kind));
  auto found = std::find(kProductWeights.begin(), kProductWeights.end(), name);
  assert(found != kProductWeights.end() && "checkSliceFormats() admits no other");
  return *found;
}

namespace {

/// Walks the decode program and splits it at its MoE layers.
class CostWalk {
public:
  CostWalk(const Artifact &of, const DeviceProfile &on, const StepUse &how)
      : artifact(of), device(on), times(on, how) {}

  StepCosts walk() {
    const std::vector<Instruction> &instructions = decodeProgramOf(artifact).instructions;
    for (size_t i = 0; i < instructions.size();)
      if (size_t linears = addLinears(std::span(instructions).subspan(i)))
        i += linears;
      else
        std::visit(*this, instructions[i++]);
    costs.after = sinceCut;
    costs.contention = {device.fractionWhileComputing.value, device.fractionWhileReading.value,
                        device.submitNsPerMiB.value / (1 << 20), device.wakeNs.value};
    costs.origin = times.origin();
    for (const Quantity &shared : {device.fractionWhileComputing, device.fractionWhileReading,
                                   device.submitNsPerMiB, device.wakeNs})
      costs.origin = worseOf(costs.origin, shared.origin);
    return std::move(costs);
  }

  void operator()(const AttendInstruction &attend) {
    const KvSlot &slot = artifact.kvSlots[attend.slot];
    sinceCut +=
        times.attention({attend.heads, slot.kvHeads, slot.keyDim, slot.valueDim, attend.window});
  }
  // Only one token's logits are computed per chunk.
  void operator()(const HeadInstruction &head) {
    sinceCut.firstNs += times.product(matrixOf(head.weight)).firstNs;
  }
  // Follows its router's product. The gate predictor's products are counted in gateCosts().
  void operator()(const RouteInstruction &route) {
    before += std::exchange(sinceCut, {});
    router.reset();
    for (const LinearInstruction *linear : lastProducts)
      if (linear->dst == route.scores)
        router = matrixOf(linear->weight);
  }
  void operator()(const ExpertsInstruction &experts) {
    const MoeLayer &layer = artifact.moeLayers[experts.moeLayer];
    costs.layers.push_back({.before = std::exchange(before, {}),
                            .beside = std::exchange(sinceCut, {}),
                            .expert = expertCost(layer),
                            .checks = times.checks(meanPayloadOf(layer), meanSlicesOf(layer)),
                            .predictNs = gateCosts()});
  }
  template <typename Other> void operator()(const Other &) {}

private:
  StoredMatrix matrixOf(int32_t weight) const {
    const ResidentWeight &matrix = artifact.residents[static_cast<size_t>(weight)];
    return {nameOf(matrix.format.kind), matrix.shape.rows, matrix.shape.cols};
  }

  /// Consecutive products with the same source are divided among threads together, as in the
  /// engine. (The engine also checks layers and destinations; our programs have no case in which
  /// that matters.)
  size_t addLinears(std::span<const Instruction> instructions) {
    std::vector<const LinearInstruction *> linears;
    std::vector<StoredMatrix> matrices;
    for (const Instruction &instruction : instructions) {
      const auto *linear = std::get_if<LinearInstruction>(&instruction);
      if (!linear || linears.size() == kMostTogether ||
          (!linears.empty() && linear->src != linears.front()->src))
        break;
      linears.push_back(linear);
      matrices.push_back(matrixOf(linear->weight));
    }
    if (linears.empty())
      return 0;
    sinceCut += times.products(matrices);
    lastProducts = std::move(linears);
    return matrices.size();
  }

  /// Time per router, if so many routers like this layer's are computed in one product.
  std::array<double, kMostAhead> gateCosts() {
    static_assert(kMostAhead <= kMostTogether);
    std::array<double, kMostAhead> each{};
    if (!router)
      return each;
    const std::vector<StoredMatrix> gates(kMostAhead, *router);
    for (size_t count = 1; count <= gates.size(); ++count)
      each[count - 1] =
          times.products(std::span(gates).first(count)).firstNs / static_cast<double>(count);
    return each;
  }

  TokenCost expertCost(const MoeLayer &layer) {
    TokenCost sum;
    for (const Expert &expert : layer.experts) {
      auto matrix = [&](ExpertPart part) {
        const MatrixShape &shape = layer.matrices[static_cast<size_t>(part)].shape;
        return StoredMatrix{productWeightsOf(expert), shape.rows, shape.cols};
      };
      sum += times.network(matrix(ExpertPart::kGate), matrix(ExpertPart::kUp),
                           matrix(ExpertPart::kDown));
    }
    const auto experts = static_cast<double>(layer.experts.size());
    return {sum.firstNs / experts, sum.furtherNs / experts};
  }

  static uint32_t meanSlicesOf(const MoeLayer &layer) {
    uint64_t slices = 0;
    for (const Expert &expert : layer.experts)
      slices += expert.slices.size();
    const double mean = static_cast<double>(slices) / static_cast<double>(layer.experts.size());
    return std::max(1u, static_cast<uint32_t>(std::lround(mean)));
  }

  static double meanPayloadOf(const MoeLayer &layer) {
    double bytes = 0;
    for (const Expert &expert : layer.experts)
      for (const Slice &slice : expert.slices)
        bytes += static_cast<double>(slice.payloadBytes);
    return bytes / static_cast<double>(layer.experts.size());
  }

  const Artifact &artifact;
  const DeviceProfile &device;
  OperationTimes times;
  StepCosts costs;
  TokenCost before, sinceCut; // Up to the last router; since it or the last experts.
  std::vector<const LinearInstruction *> lastProducts; // Computed together.
  std::optional<StoredMatrix> router; // Router of the next experts' layer, if it is a product.
};

} // namespace

StepCosts stepCostsOf(const Artifact &artifact, const DeviceProfile &device, const StepUse &use) {
  return CostWalk(artifact, device, use).walk();
}

} // namespace moec
