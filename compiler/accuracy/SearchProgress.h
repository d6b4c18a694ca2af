// Progress of a search over the windows that it evaluates, as one step with a remaining time. The
// total is not known beforehand; the estimate is the usual number of a search.
#pragma once

#include "compiler/session/Progress.h"

#include <algorithm>
#include <cstdint>

namespace moec {

/// Borrows the progress, which may be absent; the step begins and ends with the object. One thread.
class SearchProgress {
public:
  SearchProgress(Progress *told, const char *unit, uint64_t expectedWindows)
      : progress(told), expected(expectedWindows) {
    if (progress)
      progress->beginCounting("measuring losses", unit, 1, expected, 0);
  }
  SearchProgress(const SearchProgress &) = delete;
  SearchProgress &operator=(const SearchProgress &) = delete;
  ~SearchProgress() {
    if (progress)
      progress->end();
  }

  void beginPass() {
    done += inPass;
    inPass = 0;
  }
  void advanceTo(uint64_t windowsOfPass) {
    if (windowsOfPass < inPass) // The pass goes over a second set of windows.
      beginPass();
    inPass = windowsOfPass;
    if (progress)
      progress->advanceTo(std::min(done + inPass, expected));
  }
  /// A pass of an earlier run, whose result is known.
  void restorePass(uint64_t windows) {
    beginPass();
    done += windows;
    if (progress)
      progress->restoreTo(std::min(done, expected));
  }

private:
  Progress *progress;
  uint64_t expected;
  uint64_t done = 0, inPass = 0; // Windows of the passes that ended, and of this one.
};

} // namespace moec
