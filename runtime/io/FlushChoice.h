// Whether memory is taken out of the processor's caches before it is read into.
//
// A disk that writes to memory by itself does not care. The host of a virtual machine may copy what
// it read with a processor of its own, which first has to get the lines that our caches still hold.
// Where its core shares no cache with ours, that takes longer than the copy: reads of 2 MB to pages
// just used took 0.44 to 0.55 ns a byte, to flushed ones 0.17 (load-on-demand at 10%, virtual disk,
// AMD EPYC Zen 4, Linux 6.18), and the host moves its thread when it likes, for seconds or minutes.
// So both ways are tried again and again, and the one that was faster lately is taken. Pages unused
// for long are in no cache; it is policies which let go what was just used, and experts that pass
// through, that lose.
#pragma once

#include "runtime/base/Clock.h"

#include <cstdint>

namespace moert {

/// One thread.
///
/// A disk's rate is taken over a period: from the first request that is given to an idle disk until
/// it is idle again, with the flushing that could not be done while the disk was at work. It counts
/// if all its requests were of reads of one kind, and if whoever waits saw its end at once.
class FlushChoice {
public:
  explicit FlushChoice(Clock time) : clock(time) {}

  /// For the next read: whether its memory is to be flushed first.
  bool next();

  /// A request is about to go to the disk, its memory not flushed yet if it will be.
  void begin(bool isFlushed, uint64_t bytes, bool wasIdle);

  /// The disk has become idle, and this was seen at once.
  void end();

private:
  /// Exponential mean of the last periods.
  struct Rate {
    double nsPerByte = 0;
    uint32_t periods = 0;
  };

  bool isFlushFaster() const;

  Clock clock;
  Rate unflushed, flushed;
  uint32_t reads = 0;
  // The period.
  uint64_t startNs = 0;
  uint64_t bytes = 0; // 0: it does not count.
  bool isOfFlushed = false;
};

} // namespace moert
