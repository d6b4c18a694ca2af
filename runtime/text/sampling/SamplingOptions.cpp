#include "runtime/text/sampling/SamplingOptions.h"

#include <algorithm>
#include <cmath>

namespace moert {

constexpr float kMaxPenalty = 100, kMinRepetitionPenalty = 0.01f;

/// False for NaN.
static bool isWithin(float value, float low, float high) {
  return value >= low && value <= high;
}

static Status checkPenalty(const char *name, float penalty) {
  if (isWithin(penalty, -kMaxPenalty, kMaxPenalty))
    return {};
  return invalidInput(name, " ", penalty, ", expected a number from ", -kMaxPenalty, " to ",
                      kMaxPenalty, " (0 is none)");
}

static Status checkBiases(const std::vector<TokenBias> &biases, uint32_t vocabularySize) {
  std::vector<int32_t> tokens;
  for (const TokenBias &entry : biases) {
    if (entry.token < 0 || static_cast<uint32_t>(entry.token) >= vocabularySize)
      return invalidInput("a logit bias for token ", entry.token, ", expected a token from 0 to ",
                          vocabularySize - 1);
    if (!isWithin(entry.bias, -kMaxPenalty, kMaxPenalty) && entry.bias != -INFINITY)
      return invalidInput("logit bias ", entry.bias, " of token ", entry.token,
                          ", expected a number from ", -kMaxPenalty, " to ", kMaxPenalty,
                          ", or -inf to exclude the token");
    tokens.push_back(entry.token);
  }
  std::sort(tokens.begin(), tokens.end());
  auto twice = std::adjacent_find(tokens.begin(), tokens.end());
  if (twice != tokens.end())
    return invalidInput("token ", *twice, " has two logit biases, expected one at most");
  return {};
}

Status check(const SamplingOptions &options, uint32_t vocabularySize) {
  if (vocabularySize == 0 || vocabularySize > static_cast<uint32_t>(INT32_MAX))
    return invalidInput("a vocabulary of ", vocabularySize, " tokens, expected 1 to ", INT32_MAX);
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    return invalidInput("temperature ", options.temperature,
                        ", expected a finite number of at least 0 (0 is greedy)");
  if (!(options.topP > 0 && options.topP <= 1))
    return invalidInput("top-p ", options.topP, ", expected a number above 0 and at most 1");
  if (!isWithin(options.minP, 0, 1))
    return invalidInput("min-p ", options.minP, ", expected a number from 0 to 1 (0 is none)");
  if (!isWithin(options.repetitionPenalty, kMinRepetitionPenalty, kMaxPenalty))
    return invalidInput("repetition penalty ", options.repetitionPenalty,
                        ", expected a number from ", kMinRepetitionPenalty, " to ", kMaxPenalty,
                        " (1 is none)");
  MOERT_RETURN_IF_ERROR(checkPenalty("presence penalty", options.presencePenalty));
  MOERT_RETURN_IF_ERROR(checkPenalty("frequency penalty", options.frequencyPenalty));
  return checkBiases(options.logitBias, vocabularySize);
}

SamplingOptions samplingOf(const std::optional<SamplingDefaults> &defaults) {
  SamplingOptions options;
  if (!defaults)
    return options;
  options.repetitionPenalty = defaults->repetitionPenalty.value_or(options.repetitionPenalty);
  const bool hasNumbers =
      defaults->temperature || defaults->topK || defaults->topP || defaults->minP;
  if (!defaults->doSample.value_or(hasNumbers))
    return options;
  options.temperature = defaults->temperature.value_or(1.f);
  options.topK = defaults->topK.value_or(options.topK);
  options.topP = defaults->topP.value_or(options.topP);
  options.minP = defaults->minP.value_or(options.minP);
  return options;
}

} // namespace moert
