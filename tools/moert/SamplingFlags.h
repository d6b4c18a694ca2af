// The options of every command that samples tokens.
#pragma once

#include "runtime/serving/NgramStop.h"
#include "runtime/text/sampling/SamplingOptions.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace moert::cli {

/// What the command line gave; the rest is the command's default.
struct SamplingFlags {
  std::optional<float> temperature, topP, minP;
  std::optional<uint32_t> topK;
  std::optional<float> repetitionPenalty, presencePenalty, frequencyPenalty;
  std::vector<TokenBias> logitBias;
  std::optional<uint64_t> seed;
  NgramStopOptions ngramStop;
};

/// Texts of the help where commands differ.
struct SamplingHelp {
  std::optional<std::string> checkpointDefault = {}; // For options that a checkpoint may state.
  /// --top-k, --top-p and --min-p are refused without --temp, since nothing is drawn.
  bool cutsNeedTemperature = true;
};

/// Adds --temp, --top-k, --top-p, --min-p, the penalties, --logit-bias, --ngram-stop and --seed.
void addSamplingFlags(CLI::App &command, SamplingFlags &flags, const SamplingHelp &help = {});

/// `defaults` with the flags that were given. Without --seed, a random one of 32 bits, short enough
/// to type again.
Result<SamplingOptions> samplingOptionsOf(const SamplingFlags &flags,
                                          SamplingOptions defaults = {});

} // namespace moert::cli
