#include "runtime/evaluation/Evaluation.h"

#include "runtime/evaluation/PairedPass.h"

namespace moert {

Status checkEvaluation(const EvaluationOptions &options) {
  if (options.windowTokens < 2)
    return invalidInput("windows of ", options.windowTokens,
                        " tokens, expected at least 2: a window's first token is not scored");
  if (options.scoreFrom < 1 || options.scoreFrom >= options.windowTokens)
    return invalidInput("scoring from token ", options.scoreFrom, " of a window on, expected 1 to ",
                        options.windowTokens - 1, " in windows of ", options.windowTokens);
  return {};
}

Result<std::vector<SampleScore>> evaluate(std::span<const TextWindows> texts,
                                          const EvaluationOptions &options, LogitsSource &artifact,
                                          LogitsSource *reference,
                                          const EvaluationProgress &progress,
                                          const std::atomic<bool> *stop) {
  MOERT_RETURN_IF_ERROR(checkEvaluation(options));
  MOERT_RETURN_IF_ERROR(checkVocabularies(artifact, reference));
  uint64_t total = 0;
  for (const TextWindows &text : texts)
    total += text.windows();

  std::vector<SampleScore> scores;
  scores.reserve(total);
  PairedPass pass(options.stepTokens, artifact, reference, stop);
  for (uint32_t text = 0; text < texts.size(); ++text) {
    const std::vector<uint32_t> &units = texts[text].units;
    for (uint64_t window = 0; window < texts[text].windows(); ++window) {
      if (window == 0 || units[window] != units[window - 1])
        MOERT_RETURN_IF_ERROR(artifact.beginUnit());
      auto score = scoreTokens(pass, texts[text].window(window), options.scoreFrom);
      if (!score.isOk())
        return score.status().withContext(strCat("window ", scores.size() + 1, " of ", total));
      score->text = text;
      score->unit = units[window];
      scores.push_back(*score);
      if (progress)
        progress(scores.size(), total);
    }
  }
  return scores;
}

} // namespace moert
