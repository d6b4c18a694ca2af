#include "tools/moert/InputFlags.h"

#include "runtime/text/tokenizer/TokenIds.h"
#include "tools/moert/EngineFlags.h"
#include "tools/moert/LoadedModel.h"

#include <CLI/CLI.hpp>

#include <utility>

namespace moert::cli {

void addInputFlags(CLI::App &command, InputFlags &flags) {
  const std::string group = "Input of other models than decoders";
  command
      .add_option("--source-lang", flags.sourceLanguage,
                  "Language of the text to translate, by its code, such as eng_Latn (default: the "
                  "tokenizer's)")
      ->type_name("CODE")
      ->group(group);
  command
      .add_option("--target-lang", flags.targetLanguage,
                  "Language to translate into; without a tokenizer in the artifact its token's "
                  "number")
      ->type_name("CODE")
      ->group(group);
  addCount(
      command, "--prefix", 1, kMostTokens, [&flags](uint32_t n) { flags.prefixTokens = n; },
      "First tokens of the prompt that attend to each other, of a model with such a prefix")
      ->group(group);
}

static bool hasEncoder(const Model &model) {
  return findProgram(model.artifact().programs, programs::kEncode) != nullptr;
}

Status checkInputFlags(const InputFlags &flags, const Model &model, bool hasProfile) {
  if (!hasEncoder(model) && (flags.sourceLanguage || flags.targetLanguage))
    return invalidInput(flags.sourceLanguage ? "--source-lang" : "--target-lang", ": ",
                        model.path(), " has no encoder, expected a model that translates");
  if (hasProfile && takesInput(model))
    return invalidInput("--profile: ", model.path(),
                        " computes an input as a whole, which run profiles do not cover");
  if (flags.prefixTokens > 0 && (hasEncoder(model) || !takesInput(model)))
    return invalidInput("--prefix: ", model.path(),
                        " has no prefix of tokens that attend to each other");
  return {};
}

/// The token of a language's code, or of a number where the artifact has no tokenizer.
static Result<int32_t> languageToken(const Model &model, const std::string &code,
                                     const char *option) {
  const std::optional<int32_t> known =
      model.tokenizer() ? model.tokenizer()->idOf(code) : std::nullopt;
  if (known)
    return *known;
  if (model.tokenizer())
    return invalidInput(option, " ", code,
                        ": found no such token, expected a language's code, "
                        "such as eng_Latn");
  MOERT_ASSIGN_OR_RETURN(
      const std::vector<int32_t> ids,
      parseTokenIds(code, model.artifact().model.vocabularySize, std::string(option)));
  if (ids.size() != 1)
    return invalidInput(option, " ", code,
                        ": expected the number of one token, as the artifact "
                        "has no tokenizer");
  return ids.front();
}

Result<std::vector<int32_t>> takeInput(const InputFlags &flags, const Model &model, bool areIds,
                                       std::vector<int32_t> &prompt) {
  if (flags.prefixTokens > prompt.size())
    return invalidInput("--prefix ", flags.prefixTokens, ": the prompt has ", prompt.size(),
                        " tokens");
  if (!hasEncoder(model))
    return std::vector<int32_t>();
  const ModelInfo &info = model.artifact().model;
  std::vector<int32_t> input = std::exchange(prompt, {});
  if (input.size() > info.maxPositions)
    return invalidInput("an input of ", input.size(), " tokens, expected at most ",
                        info.maxPositions, ", the positions of this model");
  if (!info.bosToken)
    return invalidInput(model.path(), " has no token that its decoder begins with");
  prompt.push_back(*info.bosToken);
  if (flags.targetLanguage) {
    MOERT_ASSIGN_OR_RETURN(const int32_t target,
                           languageToken(model, *flags.targetLanguage, "--target-lang"));
    prompt.push_back(target);
  }
  if (!flags.sourceLanguage)
    return input;
  if (areIds)
    return invalidInput("--source-lang with --ids, which have the source language already");
  // In place of the language that the tokenizer puts first.
  MOERT_ASSIGN_OR_RETURN(input.front(),
                         languageToken(model, *flags.sourceLanguage, "--source-lang"));
  return input;
}

std::vector<int32_t> spanTokens(const Model &model) {
  std::vector<int32_t> tokens;
  if (!hasEncoder(model) || !model.tokenizer())
    return tokens;
  while (const std::optional<int32_t> token =
             model.tokenizer()->idOf(strCat("<extra_id_", tokens.size(), ">")))
    tokens.push_back(*token);
  return tokens;
}

namespace {

/// For steps of which no logits are wanted.
struct NoObserver : StepObserver {
  Status onLogits(Session &, uint32_t, std::span<const float>) override { return {}; }
};

} // namespace

Status computeInput(const InputFlags &flags, std::span<const int32_t> input,
                    std::span<const int32_t> prompt, Engine &engine, Session &session) {
  if (flags.prefixTokens > 0)
    return engine.setPrefix(session, flags.prefixTokens);
  if (input.empty())
    return {};
  NoObserver none;
  MOERT_RETURN_IF_ERROR(engine.encode(session, input, none));
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    const SessionTokens token = {&session, prompt.subspan(i, 1), LogitsWanted::kNowhere, true};
    MOERT_RETURN_IF_ERROR(engine.step({&token, 1}, none));
  }
  return {};
}

} // namespace moert::cli
