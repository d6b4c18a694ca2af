// What an artifact is measured on: files of texts or of items, read and tokenized, for one metric.
// From the files to scores with three calls, for every metric alike:
//
//   auto set = EvaluationSet::read(request, model, note);
//   auto engine = Engine::load(model, set->engineOptions(options), ...); EngineSource::create(...)
//   auto scores = set->evaluate(*artifact, reference, progress, stop);    // SampleScore.h
#pragma once

#include "moert/Engine.h"
#include "runtime/evaluation/AnswerEvaluation.h"
#include "runtime/evaluation/ChoiceEvaluation.h"
#include "runtime/evaluation/Evaluation.h"
#include "runtime/evaluation/TextDocuments.h"

#include <string>

namespace moert {

struct EvaluationRequest {
  LossMetric metric = LossMetric::kPerplexity;
  std::vector<std::string> files; // Texts (TextDocuments.h), or items (ItemFile.h).
  EvaluationOptions windows;      // Of perplexity, KL and agreement.
  std::string documentSeparator = std::string(kDocumentSeparator); // Of texts.
  ChoiceBy choiceBy = ChoiceBy::kLetter;                           // Of multiple choice.
  AnswerOptions answers; // Of generated text; end tokens are the model's.
};

/// How items are put to the models, as options of `moert eval`; texts as JSON spells them. Two
/// requests with the same ones give an item the same score. Nothing of metrics on windows.
std::vector<std::pair<std::string, std::string>> itemOptionsOf(const EvaluationRequest &request);

/// What a text was, to know it again: a file is the same where hash and size are.
struct EvaluatedText {
  uint64_t hash = 0; // XXH3-64 of the file's bytes.
  uint64_t bytes = 0;
  uint64_t samples = 0;             // Windows or items.
  std::vector<uint32_t> units = {}; // Of each window; empty for items, which are units each.
  uint64_t documents = 0;           // That are in a window; 0 for items.
};

/// What reading takes of a model. Borrows; no tokenizer: it has none.
struct EvaluatedModel {
  std::string name; // In messages.
  const ModelInfo &info;
  const Tokenizer *tokenizer;
};

/// Borrows the model's tokenizer: the model has to outlive it. Used by one thread.
class EvaluationSet {
public:
  using TakeNote = std::function<void(const std::string &)>;

  /// Refuses files that cannot be read or are not what the metric is measured on, naming file and
  /// line; texts of which none fills a window; items longer than the model's positions; and
  /// options outside of their ranges. `note` hears, in a sentence, of what is left out.
  static Result<EvaluationSet> read(const EvaluationRequest &request, const EvaluatedModel &model,
                                    const TakeNote &note);
  static Result<EvaluationSet> read(const EvaluationRequest &request, const Model &model,
                                    const TakeNote &note) {
    return read(request, {model.path(), model.artifact().model, model.tokenizer()}, note);
  }

  uint64_t samples() const; // Windows or items; at least one.
  const char *sampleName() const { return isOfItems(metric) ? "items" : "windows"; }

  /// Of each file, in their order.
  std::span<const EvaluatedText> textsRead() const { return identities; }

  /// Bytes that it holds, and that evaluate() needs; with what reading the largest file took.
  uint64_t memoryBytes(bool hasReference) const;

  /// The given options with the context and the rows of logits that evaluate() needs.
  EngineOptions engineOptions(EngineOptions engine) const;

  /// A score per sample, file after file. Sources have one session of engineOptions().
  Result<std::vector<SampleScore>> evaluate(LogitsSource &artifact, LogitsSource *reference,
                                            const EvaluationProgress &progress = {},
                                            const std::atomic<bool> *stop = nullptr) const;

  /// Of items alone: an item's tokens with the right choice, or the first answer, behind it.
  std::vector<int32_t> itemTokens(uint64_t item) const;

  /// Of items alone: the score of one of samples(). From many threads at once, each with sources of
  /// its own.
  Result<SampleScore> evaluateItem(uint64_t item, LogitsSource &artifact, LogitsSource *reference,
                                   const std::atomic<bool> *stop = nullptr) const;

private:
  EvaluationSet() = default;
  Status readTexts(const EvaluationRequest &request, const ModelInfo &info, const TakeNote &note);
  Status readItems(std::span<const std::string> files);
  Status addChoices(std::string_view text, const std::string &name, uint32_t file);
  Status addAnswers(std::string_view text, const std::string &name, uint32_t file);
  Status takeLength(uint64_t tokens, const std::string &place);

  LossMetric metric = LossMetric::kPerplexity;
  EvaluationOptions windows;
  ChoiceBy choiceBy = ChoiceBy::kLetter;
  AnswerOptions answers;
  const Tokenizer *tokenizer = nullptr;
  uint32_t vocabularySize = 0;
  uint32_t maxPositions = 0;
  uint32_t longestTokens = 0; // Of a sequence that a model reads or writes.
  uint64_t heldBytes = 0;
  std::vector<TextWindows> texts;         // Of each file.
  std::vector<EvaluatedText> identities;  // Of each file.
  std::vector<EncodedChoice> choiceItems; // Of multiple choice.
  std::vector<EncodedAnswer> answerItems; // Of generated text.
};

} // namespace moert
