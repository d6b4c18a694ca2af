#include "compiler/search/KeptRows.h"

#include "runtime/base/DeterministicMath.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <numeric>

using namespace moert;

namespace moec {

constexpr uint32_t kKept = kTopTokens + kTailTokens;

namespace {

/// A row that is not kept whole, as it is in the file.
struct PackedRow {
  double lossNats;
  double tail;
  uint32_t tokens[kKept];
  uint16_t codes[kKept];
};
static_assert(sizeof(PackedRow) == 16 + 6 * kKept);

} // namespace

uint64_t KeptRows::bytesOf(uint32_t vocabularySize) {
  return vocabularySize <= kWholeRow ? uint64_t(vocabularySize) * sizeof(float) : sizeof(PackedRow);
}

Result<std::unique_ptr<KeptRows>> KeptRows::open(const std::string &path, uint32_t vocabularySize,
                                                 Use use) {
  const int flags = use == Use::kRecord ? O_WRONLY | O_CREAT : O_RDONLY;
  MOERT_ASSIGN_OR_RETURN(RandomFile file, RandomFile::open(path, flags));
  return std::unique_ptr<KeptRows>(new KeptRows(std::move(file), vocabularySize, use));
}

KeptRows::KeptRows(RandomFile opened, uint32_t vocabularySize, Use wanted)
    : file(std::move(opened)), width(vocabularySize), use(wanted), bytes(bytesOf(vocabularySize)) {}

Result<RowScore> KeptRows::score(uint64_t row, std::span<const float> logits, int32_t target) {
  return use == Use::kRecord ? record(row, logits, target) : replay(row, logits, target);
}

double KeptRows::choose(std::span<const float> logits, double logSum) {
  order.resize(width);
  std::iota(order.begin(), order.end(), 0u);
  const auto isBefore = [&](uint32_t a, uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const auto top = order.begin() + kTopTokens;
  std::nth_element(order.begin(), top, order.end(), isBefore);
  std::sort(order.begin(), top, isBefore);
  const auto probability = [&](uint32_t token) {
    return deterministicWeight(double(logits[token]) - logSum);
  };
  tails.assign(width, 1);
  for (uint32_t i = 0; i < kTopTokens; ++i)
    tails[order[i]] = 0;
  double tail = 0, running = 0;
  for (uint32_t token = 0; token < width; ++token)
    if (tails[token] != 0)
      tail += tails[token] = probability(token);
  // A token may stand for several distances.
  uint32_t sampled = 0;
  for (uint32_t token = 0; token < width; ++token)
    for (running += tails[token];
         sampled < kTailTokens && running * kTailTokens >= tail * (sampled + 0.5); ++sampled)
      order[kTopTokens + sampled] = token;
  return tail;
}

Result<RowScore> KeptRows::record(uint64_t row, std::span<const float> logits, int32_t target) {
  MOERT_ASSIGN_OR_RETURN(const RowScore score, scoreRow(logits, {}, target));
  const uint64_t offset = row * bytes.size();
  if (width <= kWholeRow) {
    MOERT_RETURN_IF_ERROR(file.writeAt(offset, std::as_bytes(logits)));
    return score;
  }
  const double logSum = score.lossNats + double(logits[static_cast<size_t>(target)]);
  PackedRow packed;
  packed.lossNats = score.lossNats;
  packed.tail = choose(logits, logSum);
  for (uint32_t i = 0; i < kKept; ++i) {
    packed.tokens[i] = order[i];
    const double nats = std::max(0.0, logSum - double(logits[order[i]]));
    packed.codes[i] = static_cast<uint16_t>(std::min(65535.0, nats * kCodesPerNat + 0.5));
  }
  std::memcpy(bytes.data(), &packed, bytes.size());
  MOERT_RETURN_IF_ERROR(file.writeAt(offset, bytes));
  return score;
}

Result<RowScore> KeptRows::replay(uint64_t row, std::span<const float> logits, int32_t target) {
  MOERT_RETURN_IF_ERROR(file.readAt(row * bytes.size(), bytes).withContext(strCat("row ", row)));
  if (width <= kWholeRow)
    return scoreRow(logits, {reinterpret_cast<const float *>(bytes.data()), width}, target);
  PackedRow packed;
  std::memcpy(&packed, bytes.data(), bytes.size());
  for (uint32_t token : packed.tokens)
    if (token >= width)
      return failed("row ", row, " of the reference has token ", token, ", expected 0 to ",
                    width - 1);
  MOERT_ASSIGN_OR_RETURN(RowScore score, scoreRow(logits, {}, target));
  const double logSum = score.lossNats + double(logits[static_cast<size_t>(target)]);
  // Codes change the sum of the top tokens: their probabilities p are scaled to what it was.
  double sum = 0, top = 0, ofCandidate = 0, rest = 0;
  for (uint32_t i = 0; i < kKept; ++i) {
    const double logP = -double(packed.codes[i]) / kCodesPerNat;
    const double logQ = double(logits[packed.tokens[i]]) - logSum;
    const double difference = logP - logQ;
    if (i < kTopTokens) {
      const double p = deterministicExp(logP);
      sum += p;
      top += p * difference;
      ofCandidate += deterministicExp(logQ);
    } else {
      rest += difference - 1 + deterministicExp(-difference);
    }
  }
  const double scale = (1 - packed.tail) / sum;
  score.referenceLossNats = packed.lossNats;
  score.klNats = scale * (top + deterministicLog(scale) * sum) + packed.tail - (1 - ofCandidate) +
                 packed.tail * rest / kTailTokens;
  const auto best = static_cast<size_t>(packed.tokens[0]);
  score.agrees =
      best == static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  return score;
}

} // namespace moec
