// One disk and the reads that are under way on it, as time passes. Neither pages nor experts: the
// timed replay decides what is read when.
#pragma once

#include "compiler/plan/DeviceTimes.h"

#include <cstdint>
#include <vector>

namespace moec {

/// What a device does with so many reads of one size under way.
struct ReadPace {
  double allNs = 0;    // Until all of them have ended.
  uint32_t served = 1; // The number of the oldest ones that are served at a time; not 0.
};

/// The paces of a few sizes of records, kept, since a replay asks millions of times. Borrows the
/// table.
class ReadPaces {
public:
  explicit ReadPaces(const ReadTable &reads) : table(reads) {}

  /// A name for records of so many bytes.
  uint32_t sizeOf(uint64_t bytes);
  const ReadPace &of(uint32_t size, size_t underWay);

private:
  ReadPace make(uint64_t bytes, size_t underWay) const;

  const ReadTable &table;
  std::vector<uint64_t> sizes;                // By name.
  std::vector<std::vector<ReadPace>> perSize; // [size][under way - 1]; allNs 0: not asked yet.
};

/// The reads under way. All of them together have the rate that the device's table has for so many,
/// and the oldest ones have it among them: as few as reach that rate by themselves, for a device
/// takes up its requests in their order and more of them than it works on at a time wait; nor does
/// the runtime give it more than some at a time. One that has rested takes a while before it
/// begins.
///
/// Borrows the paces. Times are ns since the replay's begin and never go back.
class DiskTimeline {
public:
  /// wakeNs: after a rest of kDiskRestNs, and after a shorter one less in proportion.
  explicit DiskTimeline(ReadPaces &readPaces, double wakeNs = 0)
      : paces(readPaces), wakeAfterRest(wakeNs) {}

  /// speed: the factor on the disk's rates for this read, whatever others have.
  void begin(uint32_t tag, uint32_t size, double speed = 1);
  size_t underWay() const { return reads.size(); }
  /// When the next read ends, if no other one begins and the disk has this fraction of its rates
  /// from now on. Only while one is under way.
  double nextEndNs(double fraction = 1);
  /// Lets time pass, with this fraction of the disk's rates; appends the tags of the reads that end
  /// until then, in the order in which they do, those that end together in the order of their
  /// begin.
  void advanceTo(double ns, std::vector<uint32_t> &ended, double fraction = 1);

  double busyNs() const { return busy; } // At least one read was under way.

private:
  struct Read {
    uint32_t tag, size;
    double speed;
    double left; // Of 1.
  };
  size_t served() { return paces.of(reads.front().size, reads.size()).served; }
  /// That one of the served reads takes from its begin, if nothing changes.
  double readNs(const Read &read, size_t servedReads);
  double soonestNs();
  void progress(double ns, double fraction, std::vector<uint32_t> &ended);

  ReadPaces &paces;
  double wakeAfterRest;
  std::vector<Read> reads; // In the order of their begin.
  double wakeLeft = 0;     // Before the reads under way go on.
  double now = 0, busy = 0, restingSince = 0;
};

} // namespace moec
