#include "compiler/plan/OperationTimes.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>

using namespace moert;

namespace moec {

// Rows of a chunk that the slope between one token and many is taken at: device profiles are
// measured there.
constexpr uint32_t kManyTokens = 32;

// As the engine shares work out (runtime/engine/Execute.cpp): what is less is computed by one
// thread.
constexpr uint64_t kGrainOperations = 64 * 1024;

TokenCost &TokenCost::operator+=(const TokenCost &other) {
  firstNs += other.firstNs;
  furtherNs += other.furtherNs;
  return *this;
}

OperationTimes::OperationTimes(const DeviceProfile &of, const StepUse &how) : device(of), use(how) {
  use.threads = std::clamp<uint32_t>(use.threads, 1, std::max(1u, device.cores));
}

double OperationTimes::take(const Quantity &quantity) {
  worst = worseOf(worst, quantity.origin);
  return quantity.value;
}

double OperationTimes::productsNs(std::span<const StoredMatrix> matrices, uint32_t tokens) {
  uint64_t panels = 0, perPanel = 1;
  for (const StoredMatrix &matrix : matrices) {
    panels += divideUp(matrix.rows, kOutputsTogether);
    perPanel = std::max(perPanel, uint64_t(kOutputsTogether) * matrix.cols * tokens);
  }
  const uint64_t grain = std::max<uint64_t>(1, kGrainOperations / perPanel);
  const auto threads =
      static_cast<uint32_t>(std::min<uint64_t>(use.threads, divideUp(panels, grain)));
  double ns = threads > 1 ? take(device.dispatchNs) : 0;
  for (const StoredMatrix &matrix : matrices)
    ns += take(
        productNs(device, {matrix.weights, uint64_t(matrix.rows) * matrix.cols, tokens, threads}));
  return ns;
}

TokenCost OperationTimes::products(std::span<const StoredMatrix> matrices) {
  const double one = productsNs(matrices, 1), many = productsNs(matrices, kManyTokens);
  // A disturbed probe can have found one token slower than many.
  return {one, std::max(0.0, many - one) / (kManyTokens - 1)};
}

TokenCost OperationTimes::network(const StoredMatrix &gate, const StoredMatrix &up,
                                  const StoredMatrix &down) {
  const StoredMatrix together[] = {gate, up};
  TokenCost sum = products(together);
  sum += product(down);
  return sum;
}

TokenCost OperationTimes::attention(const AttentionShape &shape) {
  uint64_t positions = std::max(1u, use.contextTokens / shape.keyTokens);
  if (shape.window != 0)
    positions = std::min<uint64_t>(positions, shape.window);
  const uint64_t perHead = positions * (uint64_t(shape.keyDim) + shape.valueDim) * sizeof(float);
  const double ns =
      take(attentionNs(device, {perHead * shape.heads, perHead * shape.kvHeads * shape.kvBits / 32,
                                use.threads})) +
      (use.threads > 1 ? take(device.dispatchNs) : 0);
  return {ns, ns};
}

CheckCost OperationTimes::checks(double bytes, uint32_t slices) {
  CheckCost cost{{}, slices, use.threads > 1 ? take(device.dispatchNs) : 0};
  for (uint32_t busy = 1; busy <= use.threads; ++busy)
    cost.sliceNs.push_back(1e9 * bytes / slices * busy / take(memoryBytesPerSecond(device, busy)));
  return cost;
}

uint32_t CheckCost::together() const {
  return static_cast<uint32_t>(divideUp(sliceNs.size(), slices));
}

double CheckCost::ofSlices(uint64_t all) const {
  const uint64_t busy = std::min<uint64_t>(all, sliceNs.size());
  if (busy <= 1)
    return static_cast<double>(all) * sliceNs[0];
  return static_cast<double>(divideUp(all, busy)) * sliceNs[busy - 1] + dispatchNs;
}

} // namespace moec
