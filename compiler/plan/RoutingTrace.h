// What a model's routers asked of the expert cache, layer pass by layer pass: the calibration trace
// in the order in which an engine executes it. A decode step asks for one token's experts of each
// layer, a prefill chunk for the set that all of its tokens want.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/policy/CacheDirectory.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// How one MoE layer routed, token after token.
struct LayerRoutes {
  uint32_t experts = 0;
  uint32_t topK = 0;
  std::span<const uint16_t> chosen; // [tokens][topK]
};

/// Tokens that are computed together: a chunk of a prompt, or one.
struct TraceStep {
  uint32_t tokens = 1;
  bool beginsPrompt = false;
  bool isPrompt = false; // Miss rules do not apply to prompts, even if it is a single token.
};

/// One step's turn of one layer.
struct RoutingPass {
  uint32_t layer = 0; // Counts MoE layers.
  uint32_t tokens = 0;
  uint64_t begin = 0, end = 0; // In wanted and uses.
  bool beginsPrompt = false;   // The first layer pass of a prompt.
  bool isPrompt = false;       // As of the step.
};

struct RoutingTrace {
  std::vector<uint32_t> layerExperts; // Per layer.
  std::vector<RoutingPass> passes;
  /// For each layer pass distinct experts, as the engine orders them: the most popular first, ties
  /// to the lowest index; and how many of its tokens want them.
  std::vector<uint32_t> wanted, uses;

  moert::PassDemand demandOf(const RoutingPass &pass) const;
};

/// Texts of `windowTokens` each: so many tokens of it as a prompt in chunks, the rest one by one.
std::vector<TraceStep> stepsOfWindows(uint32_t windows, uint32_t windowTokens,
                                      uint32_t promptTokens, uint32_t chunkTokens);

/// Steps of a trace from the one to the other, which it has.
RoutingTrace partOf(const RoutingTrace &trace, size_t beginStep, size_t endStep);

/// Refuses steps and layers that do not have the same number of tokens, and experts that a layer
/// does not have.
moert::Result<RoutingTrace> makeTrace(std::span<const LayerRoutes> layers,
                                      std::span<const TraceStep> steps);

} // namespace moec
