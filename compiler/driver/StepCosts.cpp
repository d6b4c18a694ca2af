#include "compiler/driver/StepCosts.h"

#include "compiler/plan/DeviceTimes.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cassert>

using namespace moert;

namespace moec {

namespace {

// Rows of a chunk that the slope between one token and many is taken at: device profiles are
// measured there.
constexpr uint32_t kManyTokens = 32;

// As the engine shares work out (runtime/engine/Play.cpp): what is less is computed by one thread.
constexpr uint64_t kGrainOperations = 64 * 1024;

/// Adds up the times of what is played one after the other.
class Clockwork {
public:
  Clockwork(const Artifact &of, const DeviceProfile &on, const StepUse &how)
      : artifact(of), device(on), use(how) {}

  TokenCost product(std::string_view weights, const MatrixShape &shape) {
    return line([&](uint32_t tokens) { return productTime(weights, shape, tokens); });
  }

  TokenCost attention(const AttendInstruction &attend) {
    const KvSlot &slot = artifact.kvSlots[attend.slot];
    uint64_t positions = std::max(1u, use.contextTokens);
    if (attend.window != 0)
      positions = std::min<uint64_t>(positions, attend.window);
    const uint64_t bytes =
        positions * attend.heads * (uint64_t(slot.keyDim) + slot.valueDim) * sizeof(float);
    const double one = take(attentionNs(device, bytes, use.threads)) + dispatch(use.threads);
    return {one, one};
  }

  Origin origin() const { return worst; }

private:
  template <typename Time> static TokenCost line(Time time) {
    const double one = time(1), many = time(kManyTokens);
    return {one, (many - one) / (kManyTokens - 1)};
  }

  double take(const Quantity &quantity) {
    worst = worseOf(worst, quantity.origin);
    return quantity.value;
  }

  double dispatch(uint32_t threads) { return threads > 1 ? take(device.dispatchNs) : 0; }

  double productTime(std::string_view weights, const MatrixShape &shape, uint32_t tokens) {
    const uint64_t panels = divideUp(shape.rows, kPanelRows);
    const uint64_t perPanel = uint64_t(kPanelRows) * shape.cols * tokens;
    const uint64_t grain = std::max<uint64_t>(1, kGrainOperations / perPanel);
    const auto threads =
        static_cast<uint32_t>(std::min<uint64_t>(use.threads, divideUp(panels, grain)));
    const Product what{weights, uint64_t(shape.rows) * shape.cols, tokens, threads};
    return take(productNs(device, what)) + dispatch(threads);
  }

  const Artifact &artifact;
  const DeviceProfile &device;
  const StepUse &use;
  Origin worst = Origin::kMeasured;
};

void add(TokenCost &sum, const TokenCost &cost) {
  sum.firstNs += cost.firstNs;
  sum.furtherNs += cost.furtherNs;
}

TokenCost expertCost(const MoeLayer &layer, Clockwork &clockwork) {
  TokenCost sum;
  for (const Expert &expert : layer.experts)
    for (const ExpertMatrix &matrix : layer.matrices)
      add(sum, clockwork.product(productWeightsOf(expert), matrix.shape));
  const auto experts = static_cast<double>(layer.experts.size());
  return {sum.firstNs / experts, sum.furtherNs / experts};
}

// Checksums are computed at the rate at which memory is read, by the thread that takes the expert.
double checkCost(const MoeLayer &layer, const DeviceProfile &device) {
  double bytes = 0;
  for (const Expert &expert : layer.experts)
    for (const Slice &slice : expert.slices)
      bytes += static_cast<double>(slice.payloadBytes);
  return 1e9 * bytes / static_cast<double>(layer.experts.size()) /
         device.memoryBytesPerSecond.oneThread.value;
}

const Program &decodeProgramOf(const Artifact &artifact) {
  auto found = std::find_if(artifact.programs.begin(), artifact.programs.end(),
                            [](const Program &program) { return program.name == "decode"; });
  assert(found != artifact.programs.end() && "a reader refuses artifacts without");
  return *found;
}

} // namespace

std::string_view productWeightsOf(const Expert &expert) {
  std::string name = strCat(nameOf(expert.slices.front().format.kind));
  for (size_t i = 1; i < expert.slices.size(); ++i)
    name = strCat(name, "+", bitsOf(expert.slices[i].format.kind));
  auto found = std::find(kProductWeights.begin(), kProductWeights.end(), name);
  assert(found != kProductWeights.end() && "checkSliceFormats() admits no other");
  return *found;
}

namespace {

/// Walks the decode program and cuts it at its MoE layers.
class CostWalk {
public:
  CostWalk(const Artifact &of, const DeviceProfile &on, const StepUse &how)
      : artifact(of), device(on), clockwork(of, on, how) {}

  StepCosts walk() {
    for (const Instruction &instruction : decodeProgramOf(artifact).instructions)
      std::visit(*this, instruction);
    costs.after = sinceExperts;
    costs.origin = clockwork.origin();
    return std::move(costs);
  }

  void operator()(const LinearInstruction &linear) {
    lastProduct = productOf(linear.weight);
    add(sinceExperts, lastProduct);
  }
  void operator()(const AttendInstruction &attend) {
    add(sinceExperts, clockwork.attention(attend));
  }
  // Of a chunk one token's logits are wanted.
  void operator()(const HeadInstruction &head) {
    sinceExperts.firstNs += productOf(head.weight).firstNs;
  }
  // Behind its router's product. A guess by gate is the same product elsewhere.
  void operator()(const RouteInstruction &) { routerNs = lastProduct.firstNs; }
  void operator()(const ExpertsInstruction &experts) {
    const MoeLayer &layer = artifact.moeLayers[experts.moeLayer];
    costs.layers.push_back(
        {sinceExperts, expertCost(layer, clockwork), checkCost(layer, device), routerNs});
    sinceExperts = {};
  }
  template <typename Other> void operator()(const Other &) {}

private:
  TokenCost productOf(int32_t weight) {
    const ResidentWeight &matrix = artifact.residents[static_cast<size_t>(weight)];
    return clockwork.product(nameOf(matrix.format.kind), matrix.shape);
  }

  const Artifact &artifact;
  const DeviceProfile &device;
  Clockwork clockwork;
  StepCosts costs;
  TokenCost sinceExperts, lastProduct;
  double routerNs = 0;
};

} // namespace

StepCosts stepCostsOf(const Artifact &artifact, const DeviceProfile &device, const StepUse &use) {
  return CostWalk(artifact, device, use).walk();
}

} // namespace moec
