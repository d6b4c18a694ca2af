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

Result<std::vector<SampleScore>>
evaluateEach(uint64_t count, const char *name, uint32_t stepTokens, LogitsSource &artifact,
             LogitsSource *reference, const EvaluationProgress &progress,
             const std::atomic<bool> *stop,
             const std::function<Result<SampleScore>(uint64_t sample, PairedPass &pass)> &score) {
  MOERT_RETURN_IF_ERROR(checkVocabularies(artifact, reference));
  std::vector<SampleScore> scores;
  scores.reserve(count);
  PairedPass pass(stepTokens, artifact, reference, stop);
  while (scores.size() < count) {
    auto one = score(scores.size(), pass);
    if (!one.isOk())
      return one.status().withContext(strCat(name, " ", scores.size() + 1, " of ", count));
    scores.push_back(*one);
    if (progress)
      progress(scores.size(), count);
  }
  return scores;
}

Result<std::vector<SampleScore>> evaluate(std::span<const TextWindows> texts,
                                          const EvaluationOptions &options, LogitsSource &artifact,
                                          LogitsSource *reference,
                                          const EvaluationProgress &progress,
                                          const std::atomic<bool> *stop) {
  MOERT_RETURN_IF_ERROR(checkEvaluation(options));
  uint64_t total = 0;
  for (const TextWindows &text : texts)
    total += text.windows();
  uint32_t text = 0;
  uint64_t window = 0;
  return evaluateEach(total, "window", options.stepTokens, artifact, reference, progress, stop,
                      [&](uint64_t, PairedPass &pass) -> Result<SampleScore> {
                        for (; window == texts[text].windows(); window = 0)
                          ++text;
                        const std::vector<uint32_t> &units = texts[text].units;
                        if (window == 0 || units[window] != units[window - 1])
                          MOERT_RETURN_IF_ERROR(pass.beginUnit());
                        MOERT_ASSIGN_OR_RETURN(
                            SampleScore score,
                            scoreTokens(pass, texts[text].window(window), options.scoreFrom));
                        score.text = text;
                        score.unit = units[window++];
                        return score;
                      });
}

} // namespace moert
