#include "compiler/plan/DiskTimeline.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

using moert::divideUp;

namespace moec {

uint32_t ReadPaces::sizeOf(uint64_t bytes) {
  size_t size = static_cast<size_t>(std::find(sizes.begin(), sizes.end(), bytes) - sizes.begin());
  if (size == sizes.size()) {
    sizes.push_back(bytes);
    perSize.emplace_back();
  }
  return static_cast<uint32_t>(size);
}

const ReadPace &ReadPaces::of(uint32_t size, size_t underWay) {
  std::vector<ReadPace> &known = perSize[size];
  if (known.size() < underWay)
    known.resize(underWay);
  if (known[underWay - 1].allNs == 0)
    known[underWay - 1] = make(sizes[size], underWay);
  return known[underWay - 1];
}

/// The device's times until so many reads have ended, made to grow with their number: measured ones
/// may say that two reads end sooner than one, which would make a cache that misses more the better
/// one. Between the longest time of fewer reads and the shortest one of more.
static double growingNs(const ReadTable &table, uint64_t bytes, size_t underWay) {
  const size_t deepest = std::max<size_t>(underWay, table.depths.back());
  double longest = 0, shortest = std::numeric_limits<double>::infinity();
  for (size_t depth = 1; depth <= deepest; ++depth) {
    const double ns = readNs(table, bytes, static_cast<double>(depth)).value;
    if (depth <= underWay)
      longest = std::max(longest, ns);
    if (depth >= underWay)
      shortest = std::min(shortest, ns);
  }
  return std::sqrt(longest * shortest);
}

// What the runtime's queues have at the disk at a time, at most (ReadQueueOptions::maxBytesUnderWay
// in runtime/io/ReadQueue.h): further reads wait, whatever the device would do with them.
constexpr uint64_t kMostBytesAtDisk = 2 << 20;

ReadPace ReadPaces::make(uint64_t bytes, size_t underWay) const {
  // Measured rates differ by some percent from depth to depth without a cause.
  constexpr double kSameRate = 0.95;
  auto rateOf = [&](size_t depth) {
    return static_cast<double>(depth) / growingNs(table, bytes, depth);
  };
  const double rate = rateOf(underWay);
  const uint64_t most = std::min<uint64_t>(underWay, divideUp(kMostBytesAtDisk, bytes));
  uint32_t served = 1;
  while (served < most && rateOf(served) < kSameRate * rate)
    ++served;
  return {static_cast<double>(underWay) / rate, served};
}

void DiskTimeline::begin(uint32_t tag, uint32_t size, double speed) {
  if (reads.empty())
    wakeLeft = wakeAfterRest * std::min(1.0, (now - restingSince) / kDiskRestNs);
  reads.push_back({tag, size, speed, 1});
}

double DiskTimeline::readNs(const Read &read, size_t servedReads) {
  return paces.of(read.size, reads.size()).allNs * static_cast<double>(servedReads) /
         static_cast<double>(reads.size()) / read.speed;
}

double DiskTimeline::soonestNs() {
  assert(!reads.empty());
  const size_t count = served();
  double soonest = reads[0].left * readNs(reads[0], count);
  for (size_t i = 1; i < count; ++i)
    soonest = std::min(soonest, reads[i].left * readNs(reads[i], count));
  return soonest;
}

// Later than now, also where what is left takes less than a double tells apart: who waits until
// then would wait for ever.
double DiskTimeline::nextEndNs(double fraction) {
  return std::max(now + wakeLeft + soonestNs() / fraction,
                  std::nextafter(now, std::numeric_limits<double>::infinity()));
}

void DiskTimeline::progress(double ns, double fraction, std::vector<uint32_t> &ended) {
  // Below what a double tells apart after some minutes: without it the end of a read that is
  // waited for could never be reached.
  constexpr double kSlackNs = 1e-3;
  const double woken = std::min(ns, wakeLeft);
  wakeLeft -= woken;
  busy += ns;
  now += ns;
  ns -= woken;
  const size_t count = served();
  size_t kept = 0;
  for (size_t i = 0; i < reads.size(); ++i) {
    Read read = reads[i];
    const double needed = i < count ? read.left * readNs(read, count) / fraction : 0;
    if (i < count && needed <= ns + kSlackNs) {
      ended.push_back(read.tag);
      continue;
    }
    if (i < count)
      read.left *= 1 - ns / needed;
    reads[kept++] = read;
  }
  reads.resize(kept);
  if (reads.empty())
    restingSince = now;
}

void DiskTimeline::advanceTo(double ns, std::vector<uint32_t> &ended, double fraction) {
  assert(ns >= now);
  while (!reads.empty() && now < ns)
    progress(std::min(wakeLeft + soonestNs() / fraction, ns - now), fraction, ended);
  now = ns;
}

} // namespace moec
