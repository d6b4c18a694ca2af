#include "compiler/plan/TracedMisses.h"

#include "runtime/policy/PublishedScores.h"

#include <algorithm>
#include <cassert>

using namespace moert;

namespace moec {

// Stands for a likelihood that the trace does not keep. Less than any other, so that such experts
// are taken last, and are never near enough to be substitutes.
static constexpr float kUnknownLikelihood = -1;

TracedMisses::TracedMisses(const MissRule &missRule, std::span<const LayerScores> traced,
                           EvictionPolicy eviction,
                           std::span<const std::vector<uint32_t>> expertNorms)
    : rule(missRule), scores(traced), weighsExperts(needs(eviction, ScoreData::kExchanges)),
      norms(expertNorms) {}

void TracedMisses::countDisplaced(const MissInputs &inputs, const TakenExperts &result) {
  const std::span<const int32_t> takes = result.experts.first(result.count);
  double lost = 0, sum = 0;
  for (size_t rank = 0; rank < inputs.chosen.size(); ++rank) {
    const double weight = inputs.weights[rank];
    const auto found = std::find(takes.begin(), takes.end(), inputs.chosen[rank]);
    sum += weight;
    if (found == takes.end())
      lost += weight;
    else if (result.slices[static_cast<size_t>(found - takes.begin())] <
             inputs.planned[static_cast<size_t>(inputs.chosen[rank])])
      lost += kLoweredPart * weight;
  }
  displaced = sum > 0 ? lost / sum : 0;
}

void TracedMisses::addImportances(const LayerScores &known, uint32_t layer, uint64_t token) {
  importances.assign(likelihoods.size(), 0);
  for (uint64_t i = token * known.topK; i < (token + 1) * known.topK; ++i) {
    const size_t expert = known.chosen[i];
    const uint32_t norm = norms.empty() ? kFixedPointOne : norms[layer][expert];
    importances[expert] += tokenImportance(1, known.weights[i], norm);
  }
}

PassDemand TracedMisses::demandOf(const CacheMachine &machine, const RoutingTrace &trace,
                                  const RoutingPass &pass, uint32_t layer, uint64_t token) {
  changed = {};
  displaced = 0;
  if (rule.changesDecoding() && pass.tokens == 1 && !pass.isPrompt)
    return decide(machine, layer, token);
  const PassDemand traced = trace.demandOf(pass);
  return rule.changesPrompts() && pass.isPrompt ? lowerPrompt(machine, layer, traced) : traced;
}

PassDemand TracedMisses::lowerPrompt(const CacheMachine &machine, uint32_t layer,
                                     const PassDemand &traced) {
  const CacheDirectory &directory = machine.state();
  wantedSlices.clear();
  for (uint32_t expert : traced.wanted)
    wantedSlices.push_back(directory.at(directory.idOf(layer, expert)).unit.slices);
  lowerUnpopular(rule, wantedSlices);
  for (size_t i = 0; i < traced.wanted.size(); ++i) {
    const CacheUnit &unit = directory.at(directory.idOf(layer, traced.wanted[i])).unit;
    const uint16_t present = unit.isHeld() ? unit.slicesPresent : uint16_t(0);
    changed.lowered += std::max(present, wantedSlices[i]) < unit.slices;
  }
  PassDemand demand = traced;
  demand.slices = wantedSlices;
  return demand;
}

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
  const MissInputs inputs = {chosen,
                             std::span(known.weights).subspan(token * known.topK, known.topK),
                             likelihoods, planned, resident};
  decideMisses(rule, inputs, result);
  changed = {result.lowered, result.skipped, result.substituted};
  countDisplaced(inputs, result);
  if (weighsExperts)
    addImportances(known, layer, token);
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
  return {wanted, uses, 1, wantedSlices, importances};
}

} // namespace moec
