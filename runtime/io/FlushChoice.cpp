#include "runtime/io/FlushChoice.h"

namespace moert {

// One read in so many goes the way that is slower so far: a token of a model that does not fit has
// some 20 reads, so that a change shows within a few tokens.
static constexpr uint32_t kTryEvery = 16;
// Before that many periods of a kind its rate is chance.
static constexpr uint32_t kEnoughPeriods = 4;
// How much of a new period goes into the mean.
static constexpr double kWeight = 0.25;
// Flushing takes a processor's time. Where the disk does not care, both rates differ by chance
// alone.
static constexpr double kWorthwhile = 1.3;

bool FlushChoice::isFlushFaster() const {
  return unflushed.periods >= kEnoughPeriods && flushed.periods >= kEnoughPeriods &&
         unflushed.nsPerByte > kWorthwhile * flushed.nsPerByte;
}

bool FlushChoice::next() {
  bool isTry = ++reads % kTryEvery == 0;
  return isFlushFaster() != isTry;
}

void FlushChoice::begin(bool isFlushed, uint64_t requestBytes, bool wasIdle) {
  if (wasIdle) {
    startNs = clock();
    isOfFlushed = isFlushed;
    bytes = requestBytes;
  } else if (bytes > 0) {
    bytes = isFlushed == isOfFlushed ? bytes + requestBytes : 0;
  }
}

void FlushChoice::end() {
  if (bytes == 0)
    return;
  Rate &rate = isOfFlushed ? flushed : unflushed;
  double found = static_cast<double>(clock() - startNs) / static_cast<double>(bytes);
  rate.nsPerByte += (found - rate.nsPerByte) * (rate.periods == 0 ? 1 : kWeight);
  rate.periods = rate.periods < kEnoughPeriods ? rate.periods + 1 : kEnoughPeriods;
  bytes = 0;
}

} // namespace moert
