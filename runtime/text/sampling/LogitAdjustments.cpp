#include "runtime/text/sampling/LogitAdjustments.h"

#include <algorithm>

namespace moert {

LogitAdjustments::LogitAdjustments(const SamplingOptions &options, uint32_t vocabularySize)
    : biases(options.logitBias), repetition(double(options.repetitionPenalty)),
      presence(double(options.presencePenalty)), frequency(double(options.frequencyPenalty)),
      occurrences(options.hasPenalties() ? vocabularySize : 0),
      adjusted(options.hasPenalties() || !biases.empty() ? vocabularySize : 0) {}

uint64_t LogitAdjustments::memoryBytes(const SamplingOptions &options, uint32_t vocabularySize) {
  const uint64_t perToken = options.hasPenalties()       ? sizeof(float) + sizeof(Occurrences)
                            : !options.logitBias.empty() ? sizeof(float)
                                                         : 0;
  // The caller's list and the sampler's.
  return vocabularySize * perToken + 2 * options.logitBias.size() * sizeof(TokenBias);
}

void LogitAdjustments::reset() {
  std::fill(occurrences.begin(), occurrences.end(), Occurrences());
}

void LogitAdjustments::addPrompt(std::span<const int32_t> tokens) {
  for (int32_t token : tokens)
    if (static_cast<size_t>(token) < occurrences.size())
      occurrences[static_cast<size_t>(token)].isInPrompt = true;
}

void LogitAdjustments::addGenerated(int32_t token) {
  if (static_cast<size_t>(token) < occurrences.size())
    ++occurrences[static_cast<size_t>(token)].generated;
}

std::span<const float> LogitAdjustments::apply(std::span<const float> logits) {
  if (adjusted.empty())
    return logits;
  std::copy(logits.begin(), logits.end(), adjusted.begin());
  for (const TokenBias &entry : biases)
    adjusted[static_cast<size_t>(entry.token)] += entry.bias;
  for (size_t token = 0; token < occurrences.size(); ++token) {
    const Occurrences &seen = occurrences[token];
    if (seen.generated == 0 && !seen.isInPrompt)
      continue;
    double logit = double(adjusted[token]);
    logit = logit > 0 ? logit / repetition : logit * repetition;
    if (seen.generated > 0)
      logit -= seen.generated * frequency + presence;
    adjusted[token] = static_cast<float>(logit);
  }
  return adjusted;
}

} // namespace moert
