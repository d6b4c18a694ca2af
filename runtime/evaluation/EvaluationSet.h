// The data that an artifact is measured on: files of texts or of items, read and tokenized, for one
// metric. Three calls lead from the files to scores, for every metric:
//
//   auto set = EvaluationSet::read(request, model, note);
//   auto engine = Engine::load(model, set->engineOptions(options), ...); EngineSource::create(...)
//   auto scores = set->evaluate(*artifact, reference, progress, stop);    // SampleScore.h
#pragma once

#include "runtime/engine/Engine.h"
#include "runtime/evaluation/AnswerEvaluation.h"
#include "runtime/evaluation/ChoiceEvaluation.h"
#include "runtime/evaluation/Evaluation.h"
#include "runtime/evaluation/TextDocuments.h"
#include "runtime/images/LabelledImages.h"

#include <optional>
#include <string>

namespace moert {

struct EvaluationRequest {
  LossMetric metric = LossMetric::kPerplexity;
  /// Texts (TextDocuments.h), items (ItemFile.h), or for accuracy folders (LabelledImages.h).
  std::vector<std::string> files;
  EvaluationOptions windows; // For perplexity, KL and agreement.
  std::string documentSeparator = std::string(kDocumentSeparator); // For texts.
  ChoiceBy choiceBy = ChoiceBy::kLetter;                           // For multiple choice.
  AnswerOptions answers; // For generated text; end tokens are the model's.
};

/// The options of `moert eval` that decide how items are scored; texts in JSON's notation. Requests
/// with equal options give an item the same score. Empty for metrics on windows.
std::vector<std::pair<std::string, std::string>> itemOptionsOf(const EvaluationRequest &request);

/// Identity of a text: two files are the same if hash and size are equal.
struct EvaluatedText {
  uint64_t hash = 0; // XXH3-64 of the file's bytes.
  uint64_t bytes = 0;
  uint64_t samples = 0;                     // Windows or items.
  std::vector<uint32_t> units = {};         // Unit per window; empty for items: each is a unit.
  uint64_t documents = 0;                   // Documents that are in a window; 0 for items.
  std::vector<DocumentId> documentIds = {}; // All of them, or all items.
};

/// An image is known by the bytes of its file.
inline DocumentId idOfImage(const LabelledImage &image) {
  return {image.hash, image.hash};
}

/// The parts of a model that reading needs. Borrows. Null tokenizer: the model has none.
struct EvaluatedModel {
  std::string name; // In messages.
  const ModelInfo &info;
  const Tokenizer *tokenizer;
  std::optional<ImageModel> images = {}; // A vision model's.
};

/// The parts of a loaded model.
EvaluatedModel evaluatedModelOf(const Model &model);

/// Tokens to append at a time: whole sequences, unless a reference's rows would take too much; a
/// multiple of wholeTokens (LogitsSource).
uint32_t stepTokensOf(uint32_t longestTokens, uint32_t vocabularySize, bool hasReference,
                      uint32_t wholeTokens);

/// Borrows the model's tokenizer: the model must outlive it. Used by one thread.
class EvaluationSet {
public:
  using TakeNote = std::function<void(const std::string &)>;

  /// Refuses files that cannot be read or are of the wrong kind for the metric, naming file and
  /// line; texts of which none fills a window; items longer than the model's positions; and
  /// options outside of their ranges. Calls `note` with a sentence about what is left out.
  static Result<EvaluationSet> read(const EvaluationRequest &request, const EvaluatedModel &model,
                                    const TakeNote &note);
  static Result<EvaluationSet> read(const EvaluationRequest &request, const Model &model,
                                    const TakeNote &note) {
    return read(request, evaluatedModelOf(model), note);
  }

  uint64_t samples() const; // Windows or items; at least one.
  const char *sampleName() const {
    return images ? "images" : isOfItems(metric) ? "items" : "windows";
  }
  /// What sources of a vision model need; null for others. The set must not be moved while they
  /// use it.
  const LabelledImages *imagesRead() const { return images ? &*images : nullptr; }

  /// One entry per file, in their order.
  std::span<const EvaluatedText> textsRead() const { return identities; }

  /// For texts only: their windows, one entry per file.
  std::span<const TextWindows> windowsOfTexts() const { return texts; }
  /// For texts only: leaves out all other windows of a file, as TextWindows::keepOnly().
  void keepOnly(size_t file, std::span<const uint32_t> windows);

  /// Bytes that it holds and that evaluate() needs, including the peak while the largest file is
  /// read. `wholeTokens`: the artifact's (LogitsSource).
  uint64_t memoryBytes(bool hasReference, uint32_t wholeTokens = 1) const;

  /// The given options with the context and the rows of logits that evaluate() needs.
  EngineOptions engineOptions(EngineOptions engine) const;

  /// A score per sample, file after file. The sources have engines with engineOptions().
  Result<std::vector<SampleScore>> evaluate(LogitsSource &artifact, LogitsSource *reference,
                                            const EvaluationProgress &progress = {},
                                            const std::atomic<bool> *stop = nullptr) const;

  /// For items of text only: an item's tokens followed by the right choice or the first answer.
  std::vector<int32_t> itemTokens(uint64_t item) const;

  /// For items only: the score of one of samples(). May be called by several threads, each with its
  /// own sources.
  Result<SampleScore> evaluateItem(uint64_t item, LogitsSource &artifact, LogitsSource *reference,
                                   const std::atomic<bool> *stop = nullptr) const;

private:
  EvaluationSet() = default;
  Status readTexts(const EvaluationRequest &request, const ModelInfo &info, const TakeNote &note);
  Status readItems(std::span<const std::string> files);
  Status addChoices(std::string_view text, const std::string &name, uint32_t file);
  Status addAnswers(std::string_view text, const std::string &name, uint32_t file);
  Status readImages(const EvaluationRequest &request, const EvaluatedModel &model);
  Status takeLength(uint64_t tokens, const std::string &place);
  /// evaluateItem() with a pass of the sources.
  Result<SampleScore> scoreItem(uint64_t item, LogitsSource &artifact, LogitsSource *reference,
                                PairedPass &pass, const std::atomic<bool> *stop) const;
  Result<SampleScore> evaluateImage(uint64_t image, PairedPass &pass) const;

  LossMetric metric = LossMetric::kPerplexity;
  EvaluationOptions windows;
  ChoiceBy choiceBy = ChoiceBy::kLetter;
  AnswerOptions answers;
  const Tokenizer *tokenizer = nullptr;
  uint32_t vocabularySize = 0;
  uint32_t maxPositions = 0;
  uint32_t longestTokens = 0; // Length of the longest sequence that a model reads or writes.
  uint64_t heldBytes = 0;
  std::vector<TextWindows> texts;         // Per file.
  std::vector<EvaluatedText> identities;  // Per file.
  std::vector<EncodedChoice> choiceItems; // For multiple choice.
  std::vector<EncodedAnswer> answerItems; // For generated text.
  std::optional<LabelledImages> images;   // For accuracy.
  std::vector<uint32_t> imageFiles;       // The file of each image.
};

} // namespace moert
