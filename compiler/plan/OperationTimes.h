// What the operations of a step take on a device beside reading: the one model of costs that plans,
// passes and outlooks use. It knows shapes and rates; which operations a step has is the caller's
// business.
//
// An operation that is shared out costs the products of its threads and one dispatch; what is small
// is computed by one thread, as the engine does. Left out are operations on single rows (norms,
// activations, rounding to int8, the choice of experts): decoding with hidden rows of 1,536 they
// were 2% of a step's processor time, less at larger sizes.
#pragma once

#include "compiler/plan/DeviceTimes.h"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace moec {

/// A line: what the first token of a layer pass costs, and every further one.
struct TokenCost {
  double firstNs = 0, furtherNs = 0;
  double of(uint32_t tokens) const { return firstNs + furtherNs * (tokens - 1); }
  TokenCost &operator+=(const TokenCost &other);
};

/// Checksums of experts that were read. Threads share out slices, of several experts if one has too
/// few (ExpertCache::verifyReady in runtime/experts/ExpertCache.h).
struct CheckCost {
  std::vector<double> sliceNs{0}; // Per slice, by the number of threads that have one, from one on.
  uint32_t slices = 1;            // Per expert.
  double dispatchNs = 0;          // Where more than one thread has one.

  /// Experts that are looked at together, if so many are there.
  uint32_t together() const;
  double of(uint32_t experts) const { return ofSlices(uint64_t(experts) * slices); }
  double ofSlices(uint64_t all) const;
};

/// How a step is computed.
struct StepUse {
  uint32_t threads = 1;
  uint32_t contextTokens = 0; // Positions that an attention looks back at, in the mean.
};

/// A matrix that rows of activations are multiplied with.
struct StoredMatrix {
  std::string_view weights; // One of kProductWeights.
  uint32_t rows = 0, cols = 0;
};

/// An attention's heads and the width of what it looks back at.
struct AttentionShape {
  uint32_t heads = 0, kvHeads = 0;
  uint32_t keyDim = 0, valueDim = 0;
  uint32_t window = 0; // 0: none.
  uint32_t kvBits = 32;
  uint32_t keyTokens = 1; // Tokens with one key.
};

/// Outputs of a matrix that are computed together; work is shared out in these.
constexpr uint32_t kOutputsTogether = 16;

/// Lives for one walk over a step; borrows the device.
class OperationTimes {
public:
  OperationTimes(const DeviceProfile &of, const StepUse &how);

  /// Products with the same rows of activations, shared out together.
  TokenCost products(std::span<const StoredMatrix> matrices);
  TokenCost product(const StoredMatrix &matrix) { return products({&matrix, 1}); }

  /// A network of gate and up, shared out together, and then down.
  TokenCost network(const StoredMatrix &gate, const StoredMatrix &up, const StoredMatrix &down);

  /// The same for every token: the positions of a chunk are as many as those of as many steps.
  TokenCost attention(const AttentionShape &shape);

  /// The checksums of an expert of so many bytes in so many slices, computed as fast as memory is
  /// read.
  CheckCost checks(double bytes, uint32_t slices);

  /// The worst that any of these times was made of.
  Origin origin() const { return worst; }

private:
  double productsNs(std::span<const StoredMatrix> matrices, uint32_t tokens);
  double take(const Quantity &quantity);

  const DeviceProfile &device;
  StepUse use;
  Origin worst = Origin::kMeasured;
};

} // namespace moec
