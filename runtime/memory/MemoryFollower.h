// When and to what size a process changes its budget that follows what its container and its
// machine leave it. Pure: the clock, what the system says and what the engine has are passed in.
#pragma once

#include "runtime/base/SystemLimits.h"

#include <cstdint>
#include <optional>

namespace moert {

/// What the engine has, in bytes of the whole process.
struct FollowedBudget {
  uint64_t budgetBytes = 0;    // Given.
  uint64_t accountedBytes = 0; // Used of it.
  uint64_t smallestBytes = 0;  // Below this nothing works.
};

enum class BudgetReason {
  kLimit,    // The bound is below what is accounted.
  kPressure, // Threads wait for memory.
  kRoom,     // There is room for more.
};

/// For people: "a smaller limit", "memory pressure", "more room".
const char *nameOf(BudgetReason reason);

struct BudgetChange {
  uint64_t bytes = 0;
  BudgetReason reason = BudgetReason::kLimit;
  bool isStep = false; // More room is left, and taken by the next changes.
};

/// Shrinks at once where the bound is below what is accounted, and by an eighth of what can be
/// given back where threads have waited for memory for a tenth of the time. Grows to the bound once
/// nothing of this has happened for a while, so that a bound that moves back and forth is not
/// followed each time; in steps, since no token is computed while the system clears new pages.
/// Never goes below the smallest budget. For one thread.
class MemoryFollower {
public:
  static constexpr uint64_t kSecond = 1'000'000'000;
  static constexpr uint64_t kPressureWindowNs = kSecond; // Shorter ones say nothing.
  static constexpr uint64_t kQuietAfterShrinkNs = kSecond;
  static constexpr uint64_t kQuietAfterPressureNs = 10 * kSecond;

  std::optional<BudgetChange> decide(const MemorySignals &signals, const FollowedBudget &now,
                                     uint64_t nowNs);
  /// The change was refused; growing is tried again later.
  void refused(uint64_t nowNs) { waitBeforeGrowing(nowNs, kQuietAfterPressureNs); }

private:
  bool isPressed(const MemorySignals &signals, uint64_t nowNs);
  void waitBeforeGrowing(uint64_t nowNs, uint64_t ns);

  bool isGrowing = false; // Has made a step that others follow.
  uint64_t growsFromNs = 0;
  std::optional<uint64_t> windowNs; // Where the current window of pressure began.
  uint64_t windowStalledNs = 0;     // What had been waited by then.
};

} // namespace moert
