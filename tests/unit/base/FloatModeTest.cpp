#include "runtime/base/FloatMode.h"

#include "runtime/base/ThreadPool.h"
#include "runtime/base/WorkerThread.h"
#include "tests/unit/support/FloatModes.h"

#include <atomic>
#include <doctest/doctest.h>
#include <limits>

using namespace moert;
using namespace moert::test;

namespace {

/// A volatile, so that the compiler computes none of it.
bool computesAsDefined() {
  volatile float smallest = std::numeric_limits<float>::min(), one = 1, three = 3;
  volatile float half = smallest / 2, third = one / three, negative = -one / three;
  return half != 0 && third == 0x1.555556p-2f && negative == -0x1.555556p-2f;
}

} // namespace

TEST_CASE("any mode of a caller is left for the default one, and restored") {
  for (const DefaultFloatMode::Mode &mode : foreignFloatModes()) {
    bool isDefined = false, isRestored = false, isNested = false;
    inFloatMode(mode, [&] {
      {
        const DefaultFloatMode outer;
        { const DefaultFloatMode inner; }
        isNested = computesAsDefined();
        isDefined = computesAsDefined();
      }
      isRestored = isSameMode(DefaultFloatMode::current(), mode);
    });
    CHECK(isDefined);
    CHECK(isNested);
    CHECK(isRestored);
  }
}

TEST_CASE("exceptions that are raised meanwhile stay hidden from the caller, who may trap them") {
  if (foreignFloatModes().empty())
    return;
#if defined(__x86_64__)
  // Inexact results and divisions by zero trap here.
  const DefaultFloatMode::Mode trapping = DefaultFloatMode::kDefault & ~(0x200u | 0x1000u);
  DefaultFloatMode::Mode after = 0;
  inFloatMode(trapping, [&] {
    {
      const DefaultFloatMode mode;
      computesAsDefined();
    }
    after = DefaultFloatMode::current();
  });
  CHECK(after == trapping);
#endif
}

TEST_CASE("threads compute in the default mode, whatever their creator's is") {
  for (const DefaultFloatMode::Mode &mode : foreignFloatModes()) {
    std::atomic<int> wrong = 0, runs = 0;
    bool isStarted = false;
    inFloatMode(mode, [&] {
      auto pool = ThreadPool::create(3);
      isStarted = pool.isOk();
      for (int round = 0; isStarted && round < 8; ++round)
        (*pool)->run(64, 1, [&](uint64_t, uint64_t, uint32_t thread) {
          // Thread 0 is the caller, which has to set its own mode.
          ++runs;
          wrong += thread != 0 && !computesAsDefined();
        });
    });
    CHECK(isStarted);
    CHECK(runs > 0);
    CHECK(wrong == 0);
  }
}
