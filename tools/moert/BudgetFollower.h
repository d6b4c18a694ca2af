// A running engine's budget follows what its container and the machine leave it (--memory follow),
// or changes to what a person asks for.
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/memory/MemoryFollower.h"
#include "runtime/serving/RunProfile.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace moert::cli {

/// Borrows the engine; used by its thread.
class BudgetFollower {
public:
  /// How often it looks. A look reads a few small files, which takes 0.1 ms.
  static constexpr uint64_t kLookNs = 50'000'000;

  /// smallestBytes: smallestBudget() of the engine's model and options.
  BudgetFollower(Engine &followingEngine, uint64_t smallestBytes);

  /// Before a step: looks, if it is time, and changes the budget. Prints each change to standard
  /// error, that of several steps after the last one. `position` of the step's first token: the
  /// change is kept for changes().
  Status follow(std::optional<uint32_t> position = {});
  /// Changes the budget to this one. Refused as Engine::setBudget() refuses it.
  Status set(const BudgetSize &budget);

  /// The account with the largest budget so far.
  const MemoryAccount &largestAccount() const { return largest; }
  const std::vector<RunBudget> &changes() const { return made; }

private:
  Status change(const BudgetChange &wished, std::optional<uint32_t> position);

  Engine &engine;
  uint64_t smallest;
  MemoryFollower follower;
  uint64_t nextLookNs = 0;
  std::optional<uint64_t> grownFrom; // The budget before the steps of growing now.
  MemoryAccount largest;
  std::vector<RunBudget> made;
};

} // namespace moert::cli
