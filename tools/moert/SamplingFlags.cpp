#include "tools/moert/SamplingFlags.h"

#include "tools/moert/EngineFlags.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <sys/random.h>

namespace moert::cli {

static constexpr const char *kGroup = "Sampling";

template <typename Number> static bool parseWhole(std::string_view text, Number &number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// The option is set in `value` when it is given.
template <typename Number> static auto into(std::optional<Number> &value) {
  return [&value](Number number) { value = number; };
}

/// The end of an option's text; `off` is the value without effect.
static std::string defaultText(const SamplingHelp &help, const char *off) {
  return strCat(" (default: ", help.checkpointDefault.value_or(off), ")");
}

static void addCuts(CLI::App &command, SamplingFlags &flags, const SamplingHelp &help) {
  CLI::Option *temperature =
      addDecimal(command, "--temp", into(flags.temperature),
                 "Sampling temperature; 0 takes the most likely token every time" +
                     defaultText(help, "0"))
          ->type_name("T")
          ->group(kGroup);
  CLI::Option *cuts[] = {
      addCount(command, "--top-k", 0, UINT32_MAX, into(flags.topK),
               "Sample from the K most likely tokens; 0 for all" + defaultText(help, "0"))
          ->type_name("K"),
      addDecimal(
          command, "--top-p", into(flags.topP),
          "Sample from the most likely tokens whose probabilities add up to P, above 0 and at "
          "most 1" +
              defaultText(help, "1"))
          ->type_name("P"),
      addDecimal(command, "--min-p", into(flags.minP),
                 "Sample from tokens at least P times as likely as the most likely one, 0 to 1" +
                     defaultText(help, "0"))
          ->type_name("P"),
  };
  for (CLI::Option *cut : cuts) {
    cut->group(kGroup);
    if (help.cutsNeedTemperature)
      cut->needs(temperature);
  }
}

static void addPenalties(CLI::App &command, SamplingFlags &flags, const SamplingHelp &help) {
  addDecimal(command, "--repetition-penalty", into(flags.repetitionPenalty),
             "Divide the positive logits of tokens that the prompt or the answer has by X, and "
             "multiply their negative ones; above 1 discourages these tokens" +
                 defaultText(help, "1"))
      ->type_name("X")
      ->group(kGroup);
  addDecimal(command, "--presence-penalty", into(flags.presencePenalty),
             "Subtract X from the logits of generated tokens (default: 0)")
      ->type_name("X")
      ->group(kGroup);
  addDecimal(command, "--frequency-penalty", into(flags.frequencyPenalty),
             "Subtract X from a token's logit for each time it was generated (default: 0)")
      ->type_name("X")
      ->group(kGroup);
}

static void addLogitBias(CLI::App &command, SamplingFlags &flags) {
  auto take = [&flags](const std::vector<std::string> &texts) {
    for (const std::string &text : texts) {
      const size_t equals = text.find('=');
      TokenBias entry;
      std::optional<float> bias;
      if (equals != std::string::npos)
        bias =
            text.substr(equals + 1) == "-inf" ? -INFINITY : parseDecimal(text.substr(equals + 1));
      if (!bias || !parseWhole(std::string_view(text).substr(0, equals), entry.token))
        throw CLI::ValidationError("--logit-bias",
                                   strCat("'", text,
                                          "', expected TOKEN=BIAS, such as 42=-1.5 or "
                                          "42=-inf; moert tokenize prints token ids"));
      entry.bias = *bias;
      flags.logitBias.push_back(entry);
    }
  };
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias", take,
          "Add to the logit of a token, given by its id; -inf excludes it. Can be repeated")
      ->type_name("ID=BIAS")
      ->allow_extra_args(false)
      ->group(kGroup);
}

static void addNgramStop(CLI::App &command, SamplingFlags &flags) {
  auto take = [&flags](const std::string &text) {
    const size_t colon = text.find(':');
    NgramStopOptions ngram;
    if (colon == std::string::npos ||
        !parseWhole(std::string_view(text).substr(0, colon), ngram.tokens) ||
        !parseWhole(std::string_view(text).substr(colon + 1), ngram.times) || ngram.tokens == 0)
      throw CLI::ValidationError("--ngram-stop",
                                 strCat("'", text, "', expected TOKENS:TIMES, such as 20:4"));
    if (Status status = check(ngram); !status.isOk())
      throw CLI::ValidationError("--ngram-stop", status.message());
    flags.ngramStop = ngram;
  };
  command
      .add_option_function<std::string>(
          "--ngram-stop", take,
          "End once the last N generated tokens have been generated K times (default: never)")
      ->type_name("N:K")
      ->group(kGroup);
}

void addSamplingFlags(CLI::App &command, SamplingFlags &flags, const SamplingHelp &help) {
  addCuts(command, flags, help);
  addPenalties(command, flags, help);
  addLogitBias(command, flags);
  addNgramStop(command, flags);
  auto takeSeed = [&flags](const std::string &text) {
    uint64_t seed = 0;
    const bool isDrawn = text == "-1";
    if (!isDrawn && !parseWhole(text, seed))
      throw CLI::ValidationError(
          "--seed", strCat("'", text, "', expected a whole number of 64 bits, or -1 to draw one"));
    flags.seed = isDrawn ? std::nullopt : std::optional(seed);
  };
  command
      .add_option_function<std::string>("--seed", takeSeed,
                                        "Random seed; the same seed gives the same text "
                                        "(default: -1, chosen at random and printed)")
      ->type_name("S")
      ->group(kGroup);
}

static Result<uint64_t> drawnSeed() {
  uint32_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) < 0)
    return systemError(errno, "cannot draw a seed; --seed gives one");
  return uint64_t(seed);
}

Result<SamplingOptions> samplingOptionsOf(const SamplingFlags &flags, SamplingOptions defaults) {
  SamplingOptions options = std::move(defaults);
  options.temperature = flags.temperature.value_or(options.temperature);
  options.topK = flags.topK.value_or(options.topK);
  options.topP = flags.topP.value_or(options.topP);
  options.minP = flags.minP.value_or(options.minP);
  options.repetitionPenalty = flags.repetitionPenalty.value_or(options.repetitionPenalty);
  options.presencePenalty = flags.presencePenalty.value_or(options.presencePenalty);
  options.frequencyPenalty = flags.frequencyPenalty.value_or(options.frequencyPenalty);
  options.logitBias = flags.logitBias;
  MOERT_ASSIGN_OR_RETURN(options.seed, flags.seed ? Result<uint64_t>(*flags.seed) : drawnSeed());
  return options;
}

} // namespace moert::cli
