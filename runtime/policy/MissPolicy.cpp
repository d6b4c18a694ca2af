#include "runtime/policy/MissPolicy.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace moert {

/// ":0.6": the fewest digits from which the number is found again.
static std::string fractionText(uint32_t fraction) {
  std::array<char, 16> text;
  for (int digits = 1;; ++digits) {
    std::snprintf(text.data(), text.size(), "%.*f", digits, double(fraction) / kFixedPointOne);
    if (std::lround(std::strtod(text.data(), nullptr) * kFixedPointOne) == long(fraction))
      break;
  }
  std::string trimmed = text.data();
  trimmed.erase(trimmed.find_last_not_of('0') + 1);
  if (trimmed.back() == '.')
    trimmed.pop_back();
  return ":" + trimmed;
}

std::string missRuleText(const MissRule &rule) {
  std::string text(nameOf(rule.action));
  if (rule.isLossy() && rule.action != MissAction::kMask)
    text += fractionText(rule.waitUpTo);
  if (rule.action == MissAction::kLower)
    text += fractionText(rule.skipBeyond);
  if (rule.action == MissAction::kSubstitute)
    text += fractionText(rule.substituteWithin);
  if ((rule.action == MissAction::kLower || rule.changesPrompts()) && rule.lowSlices != 1)
    text += ":" + std::to_string(rule.lowSlices);
  return text;
}

static bool contains(std::span<const int32_t> experts, int32_t expert) {
  return std::find(experts.begin(), experts.end(), expert) != experts.end();
}

static uint16_t at(std::span<const uint16_t> slices, int32_t expert) {
  return slices[static_cast<size_t>(expert)];
}

static float likelihoodOf(const MissInputs &inputs, int32_t expert) {
  return inputs.likelihoods[static_cast<size_t>(expert)];
}

/// The likeliest expert that the filter admits and that does not take part yet, ties to the lowest
/// index; -1: there is none. A NaN is never found.
template <typename Filter>
static int32_t likeliest(const MissInputs &inputs, const TakenExperts &taken, Filter filter) {
  const std::span<const int32_t> before = taken.experts.first(taken.count);
  int32_t best = -1;
  for (size_t i = 0; i < inputs.likelihoods.size(); ++i) {
    const auto expert = static_cast<int32_t>(i);
    const float likelihood = inputs.likelihoods[i];
    const bool isBetter =
        best < 0 ? likelihood == likelihood : likelihood > likelihoodOf(inputs, best);
    if (isBetter && filter(expert) && !contains(before, expert))
      best = expert;
  }
  return best;
}

/// A resident expert that the router did not choose, within the rule's distance.
static int32_t substituteFor(int32_t expert, const MissRule &rule, const MissInputs &inputs,
                             const TakenExperts &taken) {
  const int32_t found = likeliest(inputs, taken, [&inputs](int32_t other) {
    return at(inputs.resident, other) == at(inputs.planned, other) &&
           !contains(inputs.chosen, other);
  });
  const float kept = static_cast<float>(kFixedPointOne - rule.substituteWithin) / kFixedPointOne;
  const bool isWithin =
      found >= 0 && likelihoodOf(inputs, found) >= kept * likelihoodOf(inputs, expert);
  return isWithin ? found : -1;
}

/// SwapMoE's virtual experts. Where no expert is resident, the router's best one is waited for.
static void maskMissing(const MissInputs &inputs, TakenExperts &taken) {
  const size_t most = inputs.chosen.size();
  while (taken.count < most) {
    const int32_t expert = likeliest(
        inputs, taken, [&inputs](int32_t other) { return at(inputs.resident, other) > 0; });
    if (expert < 0)
      break;
    taken.substituted += !contains(inputs.chosen, expert);
    taken.add(expert, at(inputs.resident, expert));
  }
  if (taken.count == 0)
    taken.add(inputs.chosen.front(), at(inputs.planned, inputs.chosen.front()));
  taken.skipped = static_cast<uint32_t>(most) - taken.count;
}

/// An expert that is missing at its planned precision and is not important.
static void decideMissing(int32_t expert, bool isLeftOut, const MissRule &rule,
                          const MissInputs &inputs, TakenExperts &taken) {
  const uint16_t planned = at(inputs.planned, expert), resident = at(inputs.resident, expert);
  if (rule.action == MissAction::kSubstitute) {
    const int32_t substitute = substituteFor(expert, rule, inputs, taken);
    if (substitute < 0)
      return taken.add(expert, planned);
    ++taken.substituted;
    return taken.add(substitute, at(inputs.planned, substitute));
  }
  // What is in memory costs nothing, so it is neither skipped nor computed with less.
  const uint16_t low = isLeftOut ? uint16_t(0) : std::min<uint16_t>(rule.lowSlices, planned);
  const uint16_t slices = std::max(low, resident);
  taken.skipped += slices == 0;
  taken.lowered += slices > 0 && slices < planned;
  if (slices > 0)
    taken.add(expert, slices);
}

uint32_t exactInPrompt(const MissRule &rule, uint32_t experts) {
  return std::max(1u, static_cast<uint32_t>(uint64_t(experts) * rule.waitUpTo / kFixedPointOne));
}

void lowerPrefetch(const MissRule &rule, uint32_t topK,
                   std::span<const PrefetchCandidate> candidates, std::span<uint16_t> slices) {
  assert(candidates.size() == slices.size());
  std::ranges::fill(slices, kAllSlices);
  uint64_t sum = 0, before = 0;
  for (const PrefetchCandidate &candidate :
       candidates.first(std::min<size_t>(topK, candidates.size())))
    sum += candidate.probability;
  if (rule.action != MissAction::kLower || sum == 0)
    return;
  for (size_t rank = 0; rank < candidates.size(); ++rank) {
    const uint64_t score = before * kFixedPointOne / sum;
    before += candidates[rank].probability;
    if (rank > 0 && score > rule.waitUpTo)
      slices[rank] = rank >= topK || score > rule.skipBeyond ? uint16_t(0) : rule.lowSlices;
  }
}

void lowerUnpopular(const MissRule &rule, std::span<uint16_t> slices) {
  const uint32_t exact = exactInPrompt(rule, static_cast<uint32_t>(slices.size()));
  for (size_t i = exact; i < slices.size(); ++i)
    slices[i] = std::min<uint16_t>(rule.lowSlices, slices[i]);
}

void decideMisses(const MissRule &rule, const MissInputs &inputs, TakenExperts &taken) {
  assert(!inputs.chosen.empty() && inputs.weights.size() == inputs.chosen.size());
  if (rule.action == MissAction::kMask)
    return maskMissing(inputs, taken);
  float sum = 0, before = 0;
  for (float weight : inputs.weights)
    sum += weight;
  for (size_t rank = 0; rank < inputs.chosen.size(); ++rank) {
    const int32_t expert = inputs.chosen[rank];
    // Exact: a multiplication by a power of two. A NaN compares as important.
    const float score = before / sum * static_cast<float>(kFixedPointOne);
    before += inputs.weights[rank];
    const bool isResident = at(inputs.resident, expert) == at(inputs.planned, expert);
    const bool isImportant = rank == 0 || !(score > static_cast<float>(rule.waitUpTo));
    if (isResident || isImportant || !rule.changesDecoding())
      taken.add(expert, at(inputs.planned, expert));
    else
      decideMissing(expert,
                    rule.action == MissAction::kSkip || score > static_cast<float>(rule.skipBeyond),
                    rule, inputs, taken);
  }
}

} // namespace moert
