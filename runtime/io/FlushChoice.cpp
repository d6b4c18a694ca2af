#include "runtime/io/FlushChoice.h"

namespace moert {

// One period in so many goes the way that is slower so far. A token of a model that does not fit
// has some 10 to 40, so that a change shows within a few tokens. Odd, since layers have even
// numbers of reads, and the first one's period is not like the last one's.
static constexpr uint32_t kTryEvery = 17;
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

void FlushChoice::begin(bool isFlushed) {
  isOfFlushed = isFlushed;
  if (!isFlushed && isPossible) {
    bool isTry = ++choices % kTryEvery == 0;
    isOfFlushed = isFlushFaster() != isTry;
  }
  startNs = clock();
  bytes = 0;
  counts = true;
}

void FlushChoice::add(bool isFlushed, uint64_t requestBytes) {
  bytes += requestBytes;
  counts = counts && isFlushed == isOfFlushed;
}

void FlushChoice::end() {
  if (!counts || bytes == 0)
    return;
  Rate &rate = isOfFlushed ? flushed : unflushed;
  double found = static_cast<double>(clock() - startNs) / static_cast<double>(bytes);
  rate.nsPerByte += (found - rate.nsPerByte) * (rate.periods == 0 ? 1 : kWeight);
  rate.periods = rate.periods < kEnoughPeriods ? rate.periods + 1 : kEnoughPeriods;
  counts = false;
}

} // namespace moert
