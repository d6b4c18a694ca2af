// Whether memory is flushed, that is taken out of the processor's caches, before it is read into.
//
// A disk that writes to memory by itself does not care. The host of a virtual machine may copy what
// it read with a processor of its own, which first has to get the lines that our caches still hold.
// Where its core shares no cache with ours, that takes longer than the copy: reads of 2 MB to pages
// just used took 0.44 to 0.55 ns a byte, to flushed ones 0.17 (load-on-demand at 10%, virtual disk,
// AMD EPYC Zen 4, Linux 6.18), and it comes and goes within seconds or minutes. So both ways are
// tried again and again, and the one that was faster lately is taken. Only reads into pages that
// were used a short time ago gain by it: by policies which let go what was just used, and for
// experts that pass through.
#pragma once

#include "runtime/base/Clock.h"

#include <cstdint>

namespace moert {

/// One thread.
///
/// Decided, and timed, are periods: from the first request that is given to an idle disk until it
/// is idle again, with the flushing that could not be done while the disk was at work. A period
/// counts if all its requests were flushed or none was, and if its end was seen at once.
class FlushChoice {
public:
  FlushChoice(Clock time, bool canFlush) : clock(time), isPossible(canFlush) {}

  /// The disk is idle and gets a request; one that was flushed already makes it a period of such.
  void begin(bool isFlushed);

  /// Whether requests of the period are to be flushed.
  bool isFlushing() const { return isOfFlushed; }

  /// Whether flushing is faster lately, so that requests of the next period may be flushed already.
  bool isFlushFaster() const;

  /// A request of the period goes to the disk, the first one too.
  void add(bool isFlushed, uint64_t requestBytes);

  /// The disk has become idle, and this was seen at once.
  void end();

private:
  /// Exponential mean of the last periods.
  struct Rate {
    double nsPerByte = 0;
    uint32_t periods = 0; // Counted as far as it matters.
  };

  Clock clock;
  bool isPossible;
  Rate unflushed, flushed;
  uint32_t choices = 0;
  // The period.
  uint64_t startNs = 0;
  uint64_t bytes = 0;
  bool isOfFlushed = false;
  bool counts = false;
};

} // namespace moert
