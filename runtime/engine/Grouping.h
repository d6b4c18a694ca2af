// What the experts of a layer are demanded for: the (row, rank) pairs of a batch, by expert.
#pragma once

#include "runtime/engine/Step.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Ranks that a miss rule left out or whose expert is kNone are in no group. Sized once, for the
/// layer with the most experts; the pairs are in the step's tables.
class Grouping {
public:
  explicit Grouping(uint32_t mostExperts)
      : begins(mostExperts + 1), wantedExperts(mostExperts), useCounts(mostExperts) {}

  /// Groups the step's rows by their experts, integers [rows][ranks]. ranksTaken: how many of a
  /// row's ranks take part; empty: all.
  void group(Step &step, const Rows &experts, uint32_t ranks, uint32_t expertCount,
             std::span<const uint32_t> ranksTaken);

  /// Distinct experts, the most used first, ties to the lowest index.
  std::span<const uint32_t> wanted() const { return std::span(wantedExperts).first(distinct); }
  /// Number of rows that routed to each of them.
  std::span<const uint32_t> uses() const { return std::span(useCounts).first(distinct); }
  /// row * ranks + rank, ascending, of an expert that is wanted.
  std::span<uint32_t> pairsOf(Step &step, uint32_t expert) const {
    return {step.expertRows + begins[expert], step.expertRows + begins[expert + 1]};
  }

private:
  std::vector<uint32_t> begins; // The pairs of expert e are [begins[e], begins[e + 1]).
  std::vector<uint32_t> wantedExperts, useCounts;
  uint32_t distinct = 0;
};

} // namespace moert
