// Choosing a width for every expert: the fewest bytes (or the least time; the cost is a parameter)
// within a loss. A problem can be checked, any solver may propose an assignment, and verify()
// proves it without knowing who found it.
//
// The losses here are estimates that add up; what an assignment really loses is measured by the
// search (WidthSearch.h).
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// One way to store an item.
struct WidthOption {
  /// Mean bits of a weight; 16: as the checkpoint has it. Items with a choice have whole numbers
  /// for one width of all matrices, and no whole number for a wider down projection: 2 bits more
  /// than gate and up add 2/3.
  double bits = 0;
  double cost = 0; // Bytes, or another cost of the same unit for all items; not negative.
  double loss = 0; // Estimated nats per token that this option adds; not negative.
};

/// Something that gets one width: an expert, or a class of resident weights.
struct WidthItem {
  std::string name;                 // "layer 3 expert 17", for messages.
  std::vector<WidthOption> options; // Bits descending; at least one.
};

struct WidthProblem {
  std::vector<WidthItem> items;
  double lossLimit = 0; // The sum over items may not exceed it.
};

/// The index of the chosen option of each item.
using WidthAssignment = std::vector<uint32_t>;

struct WidthTotals {
  double cost = 0, loss = 0;
};

/// Refuses problems that say nothing or contradict themselves: no items, no options, bits that do
/// not descend, costs or losses that are negative or not finite.
moert::Status check(const WidthProblem &problem);

/// Refuses assignments of another size, with options that do not exist, or beyond the loss limit.
moert::Status verify(const WidthProblem &problem, std::span<const uint32_t> assignment);

WidthTotals totalsOf(const WidthProblem &problem, std::span<const uint32_t> assignment);

} // namespace moec
