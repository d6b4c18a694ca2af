#include "compiler/report/Simulated.h"

#include "runtime/base/SystemLimits.h"
#include "runtime/base/ThreadPool.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

using namespace moert;

namespace moec {

Result<std::vector<Simulated>> replayEach(size_t count,
                                          const std::function<Result<Simulated>(size_t)> &replay,
                                          const std::atomic<bool> *stop) {
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> threads,
                         ThreadPool::create(availableCores(), ThreadPool::Shortage::kTakesFewer));
  const auto isStopped = [stop] { return stop && stop->load(std::memory_order_relaxed); };
  std::vector<std::optional<Result<Simulated>>> results(count);
  threads->run(count, 1, [&](uint64_t begin, uint64_t end, uint32_t) {
    for (uint64_t i = begin; i < end && !isStopped(); ++i)
      results[i] = replay(i);
  });
  std::vector<Simulated> simulated;
  for (std::optional<Result<Simulated>> &result : results) {
    if (!result)
      return Status(StatusCode::kInterrupted, "interrupted");
    MOERT_RETURN_IF_ERROR(result->status());
    simulated.push_back(std::move(*result).value());
  }
  return simulated;
}

Simulated meansOf(const TimedResult &result) {
  const double tokens = static_cast<double>(std::max<size_t>(1, result.tokenNs.size()));
  const CacheCounts &counts = result.decode.cache;
  const double demanded = static_cast<double>(std::max<uint64_t>(1, counts.hits + counts.misses));
  return {.tokenNs = result.meanNs(),
          .waitNs = result.decode.waitNs / tokens,
          .computeNs = result.decode.computeNs / tokens,
          .bytesRead = static_cast<double>(counts.bytesRead) / tokens,
          .hitRate = static_cast<double>(counts.hits) / demanded,
          .readyRate = static_cast<double>(counts.ready) / demanded};
}

} // namespace moec
