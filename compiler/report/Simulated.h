// The results of replays that predict a run, which take all cores.
#pragma once

#include "compiler/plan/TimedReplay.h"
#include "runtime/base/Status.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

namespace moec {

/// What a replay of decode steps gives.
struct Simulated {
  double tokenNs = 0, waitNs = 0, computeNs = 0; // Means per decoded token.
  double bytesRead = 0;                          // Per decoded token.
  double hitRate = 0, readyRate = 0;
};

/// Means of the decode steps that count.
Simulated meansOf(const TimedResult &result);

/// Results of `count` independent replays, which take all cores. kInterrupted once *stop is set.
moert::Result<std::vector<Simulated>>
replayEach(size_t count, const std::function<moert::Result<Simulated>(size_t)> &replay,
           const std::atomic<bool> *stop = nullptr);

} // namespace moec
