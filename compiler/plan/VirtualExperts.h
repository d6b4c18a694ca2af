// SwapMoE's plans: a set of virtual experts per layer, the only ones that tokens use, which is
// exchanged by importance while a model decodes (Kong et al. 2023, sections 3.2, 3.3 and 3.5.1);
// and `pruning`, its baseline, whose set is fixed.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/PresetRules.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace moec {

/// The inputs of the choice of experts and exchanges. Borrowed; null or empty: unknown.
struct VirtualExpertInputs {
  std::span<const std::vector<uint64_t>> recordBytes; // [MoE layer][expert]
  uint64_t pageBytes = 0;
  std::span<const std::vector<uint32_t>> norms; // As Plan::expertNorms.
  const RoutingTrace *trace = nullptr;
  const StepCosts *costs = nullptr; // With `reads`.
  const ReadTable *reads = nullptr;
  std::span<const uint32_t> topK; // Per MoE layer.
};

/// What a step leaves the disk.
struct ExchangeTimes {
  double tokenNs = 0; // Computing a token whose experts are in memory.
  double readNs = 0;  // Reading the largest expert while tokens are computed.
};

/// Unknown without a device.
std::optional<ExchangeTimes> exchangeTimesOf(const VirtualExpertInputs &inputs);

/// The highest frequency of exchanges that leaves a token's time unchanged. The paper raises the
/// frequency until latency grows, which is where the disk has no time left beside computing; here
/// reads take at most three quarters of that time. Each exchange has twice the time that a read
/// takes alone, so that two may be under way, but at most a round of exchanges. No more promotions
/// are read at a time than `stagingRecords` of the largest size hold. Without times, one expert is
/// exchanged per token, and joins with the next one.
moert::ExchangeRule fastestExchanges(uint32_t layers, uint64_t stagingRecords,
                                     const std::optional<ExchangeTimes> &times);

/// Experts of each layer, the most important on the calibration text first: uses times norm.
/// Without a trace by their norms.
std::vector<std::vector<uint32_t>> expertsByImportance(const VirtualExpertInputs &inputs);

/// For settings with the rules and the allotment of preset swapmoe or pruning: what is in memory at
/// the start, what is pinned, and the exchanges, with their reasons.
std::vector<moert::PlanReason>
chooseVirtualExperts(Preset preset, const VirtualExpertInputs &inputs, PlanSettings &settings);

} // namespace moec
