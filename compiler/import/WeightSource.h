// Where a weight is in a checkpoint, what is made of weights everywhere, and the visitor of all
// weights of a description: a struct of a description names its parts in parts(self, visit), which
// calls visit(part...).
//
// Not here: reading weights (WeightReader.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace moec {

/// A matrix or vector as a part of a checkpoint's tensor. Linear weights are [outputs, inputs].
/// Most parts are a whole tensor; fused checkpoints keep all experts in one tensor [E, rows, cols],
/// with the rows of up below those of gate, and a part is one expert and a range of rows.
struct WeightSource {
  std::string tensor; // Name in the checkpoint.
  uint32_t rows = 0;  // Rows of the part. A vector of n elements is 1 x n.
  uint32_t cols = 0;
  std::optional<uint32_t> index; // Leading index into a 3-D tensor.
  uint32_t firstRow = 0;         // First row of the part inside the (indexed) matrix.
  uint32_t rowStep = 1;          // 2 if two matrices are interleaved row by row.
  bool transposed = false;       // Stored [inputs, outputs].
  // Not 0: the tensor is [stackedVectors, n], and the part, a vector, is taken from all of its
  // elements in their order, every rowStep-th from firstRow on.
  uint32_t stackedVectors = 0;
  // The part is this many blocks of rows, one below the other; a divisor of rows. Each block is
  // stored like a part of its own, blockStep stored rows below the block before it.
  uint32_t blocks = 1, blockStep = 0;
  bool addsOne = false;  // 1 is added to every element: a norm's that multiplies by 1 + weight.
  bool integers = false; // Stored as I32 or I64: numbers below 2^24, as those of experts.
  // Tensors of rows / shards rows each, or of cols / shards elements of a vector; `*` in the name
  // is their number.
  uint32_t shards = 1;

  /// The part in one of the shards.
  WeightSource shard(uint32_t number) const {
    WeightSource one = *this;
    one.tensor.replace(one.tensor.find('*'), 1, std::to_string(number));
    (rows > 1 ? one.rows : one.cols) /= shards;
    one.shards = 1;
    return one;
  }
};

/// The single tensors that a source is taken from: itself, or its shards.
std::vector<WeightSource> tensorsOf(const WeightSource &source);

/// y = W x + b.
struct LinearDescription {
  WeightSource weight;
  std::optional<WeightSource> bias;

  static void parts(auto &self, const auto &visit) { visit(self.weight, self.bias); }
};

enum class NormKind { kRms, kLayer };

struct NormDescription {
  NormKind kind = NormKind::kRms;
  float epsilon = 0;
  WeightSource weight;
  std::optional<WeightSource> bias;

  static void parts(auto &self, const auto &visit) { visit(self.weight, self.bias); }
};

/// Calls visit(WeightSource &) for every weight of `part`, which may be a weight, a description, or
/// an optional or a vector of them. Absent weights have no rows.
template <typename Part> void visitWeights(Part &part, const auto &visit) {
  if constexpr (std::is_same_v<std::remove_const_t<Part>, WeightSource>) {
    if (part.rows > 0)
      visit(part);
  } else if constexpr (requires { part.has_value(); }) {
    if (part)
      visitWeights(*part, visit);
  } else if constexpr (requires { part.begin(); }) {
    for (auto &each : part)
      visitWeights(each, visit);
  } else {
    Part::parts(part, [&](auto &...each) { (visitWeights(each, visit), ...); });
  }
}

} // namespace moec
