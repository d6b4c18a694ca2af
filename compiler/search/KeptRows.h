// What is kept of the reference's rows of logits on the windows that a search measures repeatedly,
// and the scores of a candidate's rows beside them.
//
// A row of up to kWholeRow tokens is kept whole, and scores exactly like a computed one. Of a
// larger one kTopTokens + kTailTokens are kept, 3 KiB in place of 4 bytes for each token:
//
//   f64 loss of the next token   f64 probability of all but the top tokens
//   u32 token [kTopTokens + kTailTokens]   u16 -log p * kCodesPerNat [the same], at most 65535
//
// The top tokens are the most likely ones, in descending order. The others are a systematic sample
// of the rest: tokens in order of their ids, at equal distances of probability. The loss of the
// reference and its most likely token are exact, and so are perplexity and agreement. The
// divergence of q from p, with d = log p - log q, is
//
//   sum over the top of p d  +  P - Q  +  P * the mean of (d - 1 + e^-d) under p in the rest
//
// where P and Q are the rest's probabilities. Codes aside, the sample's mean in place of the last
// one is the only error: it is a mean of what is never negative, about d^2 / 2.
//
// No row that is kept enters a bound that is accepted: acceptance tests execute both models, or use
// the reference's losses, which are exact.
#pragma once

#include "runtime/base/RandomFile.h"
#include "runtime/evaluation/RowScore.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moec {

constexpr uint32_t kWholeRow = 4096;
constexpr uint32_t kTopTokens = 256, kTailTokens = 256;
/// A code is within 1/4096 nat; the least is of a probability of e^-32.
constexpr double kCodesPerNat = 2048;

/// A file with a fixed place for each row. Several objects may share it, each at other rows. One
/// thread.
class KeptRows {
public:
  enum class Use { kRecord, kReplay };
  /// Recording creates the file, or writes into one that is there.
  static moert::Result<std::unique_ptr<KeptRows>> open(const std::string &path,
                                                       uint32_t vocabularySize, Use use);

  /// Recording: scores the reference's row and keeps it. Replaying: scores a candidate's row beside
  /// what is kept of the row of that number, with the same target.
  moert::Result<moert::RowScore> score(uint64_t row, std::span<const float> logits, int32_t target);

  static uint64_t bytesOf(uint32_t vocabularySize);

private:
  KeptRows(moert::RandomFile opened, uint32_t vocabularySize, Use wanted);
  moert::Result<moert::RowScore> record(uint64_t row, std::span<const float> logits,
                                        int32_t target);
  moert::Result<moert::RowScore> replay(uint64_t row, std::span<const float> logits,
                                        int32_t target);
  /// Brings the tokens that are kept to the front of `order`; returns the probability of all but
  /// the top ones.
  double choose(std::span<const float> logits, double logSum);

  moert::RandomFile file;
  uint32_t width;
  Use use;
  std::vector<uint32_t> order;  // Tokens, for choosing: those that are kept first.
  std::vector<double> tails;    // Per token its probability; 0 for the top tokens.
  std::vector<std::byte> bytes; // The row in the file.
};

} // namespace moec
