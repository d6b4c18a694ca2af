// A plan as plain data: the decisions for one memory budget, why they were made, and what they are
// expected to do. The planner makes plans, IR and artifacts hold them, the runtime follows them.
#pragma once

#include "runtime/base/Describe.h"
#include "runtime/base/Origin.h"
#include "runtime/policy/CacheRules.h"
#include "runtime/policy/MissPolicy.h"
#include "runtime/policy/Prefetches.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moert {

constexpr uint32_t kMaxContextTokens = uint32_t(1) << 30; // Positions, context.
constexpr uint32_t kMaxPrefillChunk = uint32_t(1) << 20;

/// The confidence of a bound.
inline constexpr FieldRule kConfidence = within(0.9, 0.9999);

/// One decision of a plan, for reports.
struct PlanReason {
  std::string decision;             // "eviction"
  std::string value;                // "reuse-distance"
  std::string reason;               // One sentence, with the deciding numbers.
  Origin origin = Origin::kDerived; // The least certain origin of those numbers.

  template <typename Self, typename Visit> static void describe(Self &reason, Visit &&visit) {
    visit("decision"_field, reason.decision);
    visit("value"_field, reason.value);
    visit("reason"_field, reason.reason);
    visit("origin"_field, reason.origin);
  }
  bool operator==(const PlanReason &) const = default;
};

/// What a plan is expected to do on a device that decodes text like the calibration text, token by
/// token. Made on the tokens of the trace that no decision of the plan used, after the other tokens
/// filled the cache. For reports and for comparison with a run; no token depends on it.
struct Forecast {
  std::string device; // The device profile's name.
  uint32_t threads = 0;
  uint64_t tokens = 0;                              // Decoded tokens that the figures cover.
  uint64_t traceTokens = 0;                         // Decoded tokens in the trace.
  double tokenNs = 0, medianNs = 0, slowNs = 0;     // Per token: mean, median, 95% quantile.
  double hitRate = 0;                               // Fraction of routed experts, 0 to 1.
  double readyRate = 0;                             // Hits and useful prefetches.
  double bytesPerToken = 0;                         // Read, prefetches included.
  double prefetchRecall = 0, prefetchPrecision = 0; // Misses prefetched; prefetches used.
  /// Belady's bound: no cache with as many pages that holds the same experts before these tokens
  /// reads fewer bytes while decoding them.
  double leastBytesPerToken = 0;
  double boundNs = 0;               // max(compute alone, these bytes at the device's best rate)
  Origin origin = Origin::kDerived; // The least certain origin of the device's numbers used.

  template <typename Self, typename Visit> static void describe(Self &forecast, Visit &&visit) {
    visit("device"_field, forecast.device);
    visit("threads"_field, forecast.threads);
    visit("tokens"_field, forecast.tokens);
    visit("trace_tokens"_field, forecast.traceTokens);
    visit("token_ns"_field, forecast.tokenNs, kAtLeast0);
    visit("median_ns"_field, forecast.medianNs, kAtLeast0);
    visit("slow_ns"_field, forecast.slowNs, kAtLeast0);
    visit("hit_rate"_field, forecast.hitRate, kFraction);
    visit("ready_rate"_field, forecast.readyRate, kFraction);
    visit("bytes_read_per_token"_field, forecast.bytesPerToken, kAtLeast0);
    visit("prefetch_recall"_field, forecast.prefetchRecall, kFraction);
    visit("prefetch_precision"_field, forecast.prefetchPrecision, kFraction);
    visit("least_bytes_per_token"_field, forecast.leastBytesPerToken, kAtLeast0);
    visit("bound_ns"_field, forecast.boundNs, kAtLeast0);
    visit("origin"_field, forecast.origin);
  }
  bool operator==(const Forecast &) const = default;
};

/// A text that a loss was measured on.
struct PlanText {
  std::string name;   // File name without its directory.
  uint64_t hash = 0;  // XXH3-64 of its bytes.
  uint64_t bytes = 0; // Size of the file.

  template <typename Self, typename Visit> static void describe(Self &text, Visit &&visit) {
    visit("name"_field, text.name);
    visit("hash"_field, text.hash, kHash);
    visit("bytes"_field, text.bytes);
  }
  bool operator==(const PlanText &) const = default;
};

/// What at least a fraction of the units lose at most, whatever the others lose; at the confidence
/// of the bound beside it. In the metric's unit.
struct QuantileBound {
  double fraction = 0; // Above 0, below 1.
  double upperBound = 0;
  std::optional<double> target = {}; // The bound that was allowed; absent: none was asked for.

  template <typename Self, typename Visit> static void describe(Self &quantile, Visit &&visit) {
    visit("fraction"_field, quantile.fraction);
    visit("upper_bound"_field, quantile.upperBound);
    visit("target"_field, quantile.target);
  }
  bool operator==(const QuantileBound &) const = default;
};

/// What a plan with a miss rule loses against the checkpoint at `source`: measured while it decodes
/// the texts token by token, with the planned cache, which each token leaves to the next. It holds
/// for this plan's cache alone. In the metric's unit, relative for perplexity.
struct PlanLoss {
  std::string metric;         // As `moert eval --metric` spells it.
  double loss = 0;            // Includes that of the widths.
  double upperBound = 0;      // One-sided bound of the loss, at `confidence`.
  double confidence = 0.95;   // The bound's (docs/accuracy.md).
  double klNats = 0;          // KL(reference || plan), nats per scored token.
  double topDisagreement = 0; // Fraction of scored tokens: 1 - top-1 agreement.
  uint64_t units = 0, documents = 0, windows = 0;
  uint32_t windowTokens = 0;
  std::vector<PlanText> texts;
  std::optional<QuantileBound> quantile = {}; // Absent with too few units.

  template <typename Self, typename Visit> static void describe(Self &loss, Visit &&visit) {
    visit("metric"_field, loss.metric);
    // A plan may score better than its reference; the divergence is negative only by rounding.
    visit("loss"_field, loss.loss);
    visit("upper_bound"_field, loss.upperBound);
    visit("confidence"_field, loss.confidence, kConfidence);
    visit("kl_nats"_field, loss.klNats);
    visit("top_disagreement"_field, loss.topDisagreement, kFraction);
    visit("units"_field, loss.units);
    visit("documents"_field, loss.documents);
    visit("windows"_field, loss.windows);
    visit("window_tokens"_field, loss.windowTokens, within(2, kMaxContextTokens));
    visit("texts"_field, loss.texts);
    visit("quantile"_field, loss.quantile);
  }
  bool operator==(const PlanLoss &) const = default;
};

/// What the cache holds of a MoE layer before the first prompt, in the order in which it is filled
/// as far as it fits; how many of the plan's startTokens tokens used each.
struct LayerStart {
  std::vector<uint32_t> experts, uses;

  template <typename Self, typename Visit> static void describe(Self &start, Visit &&visit) {
    visit("experts"_field, start.experts);
    visit("uses"_field, start.uses);
  }
  bool operator==(const LayerStart &) const = default;
};

/// Decisions for one budget. The quotas are the pages that each MoE layer keeps between its layer
/// passes; the running layer pass uses the staging pages on top, and prefetched experts of later
/// layers use the staging pages that it leaves.
struct Plan {
  std::string name;           // "default", or the budget as given.
  uint64_t budgetBytes = 0;   // 0: no budget was given; everything is cached.
  uint32_t prefillChunk = 0;  // Tokens.
  uint32_t contextTokens = 0; // The context that the budget was planned for.
  uint32_t stagingPages = 0;
  std::vector<uint32_t> quotaPages; // Per MoE layer.

  std::string preset = {}; // The value of --preset; may be empty.
  CacheRules rules = {.eviction = EvictionPolicy::kReuseDistance};
  std::vector<std::vector<uint32_t>> pinned = {}; // Experts per MoE layer; empty: none.
  std::vector<LayerStart> start = {};             // Per MoE layer; empty: nothing.
  uint32_t startTokens = 1;
  std::vector<PrefetchRule> prefetches = {}; // Per MoE layer; empty: no prefetching.
  std::optional<Forecast> forecast = {};
  std::vector<PlanReason> reasons = {};
  MissRule miss = {};
  std::optional<PlanLoss> loss = {}; // Only with a miss rule.
  /// Per MoE layer and expert, with eviction by importance: the norm of its weights, in units of
  /// kFixedPointOne of the layer's largest. Empty: all are equal.
  std::vector<std::vector<uint32_t>> expertNorms = {};

  template <typename Self, typename Visit> static void describe(Self &plan, Visit &&visit) {
    visit("name"_field, plan.name);
    visit("budget_bytes"_field, plan.budgetBytes);
    visit("context_tokens"_field, plan.contextTokens, within(1, kMaxContextTokens));
    visit("prefill_chunk_tokens"_field, plan.prefillChunk, within(1, kMaxPrefillChunk));
    visit("staging_pages"_field, plan.stagingPages);
    visit("quota_pages"_field, plan.quotaPages);
    visit("preset"_field, plan.preset, kAny.sparse());
    CacheRules::describe(plan.rules, visit);
    visit("pinned"_field, plan.pinned, kAny.optional());
    visit("start"_field, plan.start, kAny.optional());
    visit("start_tokens"_field, plan.startTokens, within(1, UINT32_MAX));
    visit("prefetches"_field, plan.prefetches, kAny.optional());
    visit("forecast"_field, plan.forecast);
    visit("reasons"_field, plan.reasons, kAny.optional());
    visit("miss"_field, plan.miss);
    visit("loss"_field, plan.loss);
    visit("expert_norms"_field, plan.expertNorms, kFixedPoint.optional().sparse());
  }
  bool operator==(const Plan &) const = default;
};

} // namespace moert
