#include "compiler/plan/TracedMisses.h"

#include <algorithm>
#include <cassert>

using namespace moert;

namespace moec {

// Stands for a likelihood that the trace does not keep. Less than any other, so that such experts
// are taken last, and are never near enough to be substitutes.
static constexpr float kUnknownLikelihood = -1;

TracedMisses::TracedMisses(const MissRule &missRule, std::span<const LayerScores> traced)
    : rule(missRule), scores(traced) {}

PassDemand TracedMisses::decide(const CacheMachine &machine, uint32_t layer, uint64_t token) {
  const LayerScores &known = scores[layer];
  assert(token < known.tokens());
  const CacheDirectory &directory = machine.state();
  const uint32_t experts = directory.expertsIn(layer);
  planned.resize(experts);
  resident.resize(experts);
  likelihoods.assign(experts, kUnknownLikelihood);
  for (uint32_t expert = 0; expert < experts; ++expert) {
    const uint32_t id = directory.idOf(layer, expert);
    planned[expert] = directory.at(id).unit.slices;
    resident[expert] = machine.slicesCounted(id);
  }
  for (uint64_t i = token * known.perToken; i < (token + 1) * known.perToken; ++i)
    likelihoods[known.likeliest[i]] = known.likelihoods[i];
  const auto first = known.chosen.begin() + static_cast<ptrdiff_t>(token * known.topK);
  chosen.assign(first, first + known.topK);
  taken.resize(known.topK);
  slices.resize(known.topK);

  TakenExperts result = {taken, slices};
  decideMisses(rule,
               {chosen, std::span(known.weights).subspan(token * known.topK, known.topK),
                likelihoods, planned, resident},
               result);
  changed = {result.lowered, result.skipped, result.substituted};
  // The engine orders experts with as many uses by their number.
  wanted.clear();
  for (uint32_t i = 0; i < result.count; ++i)
    wanted.push_back(static_cast<uint32_t>(taken[i]));
  std::sort(wanted.begin(), wanted.end());
  uses.assign(wanted.size(), 1);
  wantedSlices.resize(wanted.size());
  for (uint32_t i = 0; i < result.count; ++i) {
    const auto place = std::lower_bound(wanted.begin(), wanted.end(), uint32_t(taken[i]));
    wantedSlices[static_cast<size_t>(place - wanted.begin())] = slices[i];
  }
  return {wanted, uses, 1, wantedSlices};
}

} // namespace moec
