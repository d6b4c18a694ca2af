#include "runtime/evaluation/EvaluationSet.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/text/answer/StopText.h"

#include <algorithm>

namespace moert {

/// Rows of the head at a time: its weights are read once for all of them.
constexpr uint32_t kLogitsRows = 16;
/// Most bytes of the reference's rows of one step: a step of 55 tokens at a vocabulary of 150,000.
constexpr uint64_t kReferenceRowsBytes = 32 << 20;
/// Bytes of an item beside its tokens and texts: its struct, and the allocator's overhead of lists.
constexpr uint64_t kBytesPerItem = 512 + sizeof(DocumentId);
/// Copies of a file of items while it is read: the file, the items, and the current line.
constexpr uint64_t kCopiesOfFile = 3;
/// Copies of a text while it is read: the file and its documents.
constexpr uint64_t kCopiesOfText = 2;

uint32_t stepTokensOf(uint32_t longestTokens, uint32_t vocabularySize, bool hasReference,
                      uint32_t wholeTokens) {
  if (!hasReference)
    return longestTokens;
  const uint64_t rows = kReferenceRowsBytes / (uint64_t(vocabularySize) * sizeof(float));
  const uint64_t whole = std::max(rows / wholeTokens, uint64_t(1)) * wholeTokens;
  return static_cast<uint32_t>(std::min<uint64_t>(whole, longestTokens));
}

static Status checkAnswers(const AnswerOptions &options) {
  if (options.maxTokens == 0)
    return invalidInput("texts of at most 0 tokens, expected at least 1");
  for (const std::string &stop : options.stopTexts)
    MOERT_RETURN_IF_ERROR(checkUtf8(stop, "a stop text"));
  return StopText::create(options.stopTexts).status();
}

static std::string quoted(std::string_view text) {
  std::string out;
  JsonWriter(out).string(text);
  return out;
}

std::vector<std::pair<std::string, std::string>> itemOptionsOf(const EvaluationRequest &request) {
  if (!isOfItems(request.metric) || request.metric == LossMetric::kAccuracy)
    return {};
  if (request.metric == LossMetric::kChoice)
    return {{"choice-by", request.choiceBy == ChoiceBy::kLetter ? "letter" : "text"}};
  std::vector<std::pair<std::string, std::string>> options = {
      {"max-tokens", std::to_string(request.answers.maxTokens)}};
  for (const std::string &stop : request.answers.stopTexts)
    options.emplace_back("stop", quoted(stop));
  if (request.metric == LossMetric::kExact && !request.answers.answerAfter.empty())
    options.emplace_back("answer-after", quoted(request.answers.answerAfter));
  return options;
}

EvaluatedModel evaluatedModelOf(const Model &model) {
  const Artifact &artifact = model.artifact();
  EvaluatedModel parts = {model.path(), artifact.model, model.tokenizer()};
  if (const PatchesInstruction *images = imagesOf(artifact))
    parts.images = imageModelOf(artifact, *images);
  return parts;
}

static Status checkKind(LossMetric metric, const EvaluatedModel &model) {
  if (model.images.has_value() == (metric == LossMetric::kAccuracy))
    return {};
  return invalidInput(model.name, ": found a ",
                      model.images ? "vision model, expected --metric accuracy with it, not "
                                   : "model of text, expected another metric than ",
                      metricName(metric));
}

Result<EvaluationSet> EvaluationSet::read(const EvaluationRequest &request,
                                          const EvaluatedModel &model, const TakeNote &note) {
  EvaluationSet set;
  set.metric = request.metric;
  set.windows = request.windows;
  set.choiceBy = request.choiceBy;
  set.answers = request.answers;
  set.answers.endTokens = model.info.eosTokens;
  set.vocabularySize = model.info.vocabularySize;
  set.maxPositions = model.info.maxPositions;
  MOERT_RETURN_IF_ERROR(checkKind(request.metric, model));
  if (set.metric == LossMetric::kAccuracy) {
    MOERT_RETURN_IF_ERROR(set.readImages(request, model));
    return set;
  }
  set.tokenizer = model.tokenizer;
  if (!set.tokenizer)
    return invalidInput(model.name, " has no tokenizer, expected one for reading texts");
  MOERT_RETURN_IF_ERROR(checkDocumentSeparator(request.documentSeparator));
  MOERT_RETURN_IF_ERROR(isOfItems(set.metric) ? checkAnswers(set.answers)
                                              : checkEvaluation(set.windows));
  MOERT_RETURN_IF_ERROR(isOfItems(set.metric) ? set.readItems(request.files)
                                              : set.readTexts(request, model.info, note));
  return set;
}

// Describes the part of a file that is in no window; empty if there is none.
static std::string leftOut(const TextFile &file, const TextWindows &windows) {
  if (windows.windows() == 0)
    return strCat(file.name, ": ", windows.tokensRead, " tokens, fewer than a window of ",
                  windows.windowTokens, ": left out");
  const uint64_t used = windows.documentsUsed();
  return used == windows.documentsRead
             ? std::string()
             : strCat(file.name, ": ", windows.documentsRead - used, " of ", windows.documentsRead,
                      " documents fill no window: left out");
}

Status EvaluationSet::readTexts(const EvaluationRequest &request, const ModelInfo &info,
                                const TakeNote &note) {
  MOERT_ASSIGN_OR_RETURN(
      const WindowCutter cutter,
      WindowCutter::create(*tokenizer, info.eosTokens, info.vocabularySize, windows.windowTokens));
  uint64_t largestFile = 0;
  std::string found; // The files and their tokens.
  for (const std::string &path : request.files) {
    MOERT_ASSIGN_OR_RETURN(const TextFile file, readTextFile(path, request.documentSeparator));
    auto cut = cutter.cut(file.documents);
    if (!cut.isOk())
      return cut.status().withContext(file.name);
    if (const std::string left = leftOut(file, *cut); !left.empty())
      note(left);
    found += strCat(found.empty() ? "" : ", ", file.name, " has ", cut->tokensRead, " tokens");
    largestFile = std::max(largestFile, file.bytes);
    heldBytes += cut->memoryBytes() + cut->units.size() * sizeof(uint32_t) +
                 cut->documentIds.size() * sizeof(DocumentId) + sizeof(EvaluatedText);
    identities.push_back({file.hash, file.bytes, cut->windows(), cut->units, cut->documentsUsed(),
                          cut->documentIds});
    texts.push_back(std::move(cut).value());
  }
  if (samples() == 0)
    return invalidInput(found, ", expected at least one window of ", windows.windowTokens,
                        " tokens");
  longestTokens = windows.windowTokens;
  heldBytes += kCopiesOfText * largestFile;
  return {};
}

Status EvaluationSet::readItems(std::span<const std::string> files) {
  uint64_t largestFile = 0;
  for (uint32_t file = 0; file < files.size(); ++file) {
    MOERT_ASSIGN_OR_RETURN(std::string text, readInput(files[file]));
    const std::string name = inputName(files[file]);
    identities.push_back({checksum64(std::as_bytes(std::span(text))), text.size()});
    MOERT_RETURN_IF_ERROR(metric == LossMetric::kChoice ? addChoices(text, name, file)
                                                        : addAnswers(text, name, file));
    identities.back().samples = identities.back().documentIds.size();
    largestFile = std::max<uint64_t>(largestFile, text.size());
  }
  heldBytes += kCopiesOfFile * largestFile;
  return {};
}

Status EvaluationSet::readImages(const EvaluationRequest &request, const EvaluatedModel &model) {
  images.emplace(*model.images);
  for (uint32_t file = 0; file < request.files.size(); ++file) {
    MOERT_ASSIGN_OR_RETURN(const LabelledFolder folder, images->add(request.files[file]));
    EvaluatedText &identity =
        identities.emplace_back(EvaluatedText{folder.hash, folder.bytes, folder.count});
    for (const LabelledImage &image : std::span(images->all()).subspan(folder.first))
      identity.documentIds.push_back(idOfImage(image));
    imageFiles.resize(images->all().size(), file);
  }
  longestTokens = 1; // Images are computed one by one.
  heldBytes = images->heldBytes() + imageFiles.size() * (sizeof(uint32_t) + sizeof(DocumentId)) +
              2 * images->pixels() * sizeof(float) + images->readingBytes();
  return {};
}

/// Identifies an item by what the model is asked: another order or form of the answers is the same
/// item. The beginnings of prompts may be the same examples, so all of it is one hash.
static DocumentId idOfItem(const std::string &question, std::vector<std::string> choices) {
  std::sort(choices.begin(), choices.end());
  std::string text = withSingleSpaces(question);
  for (const std::string &choice : choices)
    text += "\n" + withSingleSpaces(choice);
  const uint64_t hash = checksum64(std::as_bytes(std::span(text)));
  return {hash, hash};
}

Status EvaluationSet::addChoices(std::string_view text, const std::string &name, uint32_t file) {
  MOERT_ASSIGN_OR_RETURN(std::vector<ChoiceItem> items, parseChoiceItems(text, name));
  for (const ChoiceItem &item : items) {
    const std::string place = strCat(name, " line ", item.line);
    auto encoded = encodeChoice(item, choiceBy, *tokenizer);
    if (!encoded.isOk())
      return encoded.status().withContext(place);
    MOERT_RETURN_IF_ERROR(takeLength(encoded->longestTokens(), place));
    encoded->text = file;
    identities.back().documentIds.push_back(idOfItem(item.question, item.choices));
    heldBytes += kBytesPerItem + encoded->question.size() * sizeof(int32_t);
    for (const std::vector<int32_t> &choice : encoded->choices)
      heldBytes += choice.capacity() * sizeof(int32_t);
    choiceItems.push_back(std::move(encoded).value());
  }
  return {};
}

Status EvaluationSet::addAnswers(std::string_view text, const std::string &name, uint32_t file) {
  MOERT_ASSIGN_OR_RETURN(std::vector<AnswerItem> items, parseAnswerItems(text, name));
  for (AnswerItem &item : items) {
    const std::string place = strCat(name, " line ", item.line);
    identities.back().documentIds.push_back(idOfItem(item.prompt, {}));
    auto encoded = encodeAnswer(std::move(item), *tokenizer);
    if (!encoded.isOk())
      return encoded.status().withContext(place);
    MOERT_RETURN_IF_ERROR(takeLength(encoded->longestTokens(answers.maxTokens), place));
    encoded->text = file;
    heldBytes += kBytesPerItem +
                 (encoded->prompt.capacity() + encoded->withAnswer.capacity()) * sizeof(int32_t);
    for (const std::string &answer : encoded->answers)
      heldBytes += sizeof(std::string) + answer.capacity();
    answerItems.push_back(std::move(encoded).value());
  }
  return {};
}

Status EvaluationSet::takeLength(uint64_t tokens, const std::string &place) {
  if (tokens > maxPositions) {
    const std::string generated =
        metric == LossMetric::kChoice
            ? ""
            : strCat(", the ", answers.maxTokens, " to generate at most included");
    return invalidInput(place, ": an item of ", tokens, " tokens", generated, ", expected at most ",
                        maxPositions, ", the positions of this model");
  }
  longestTokens = std::max(longestTokens, static_cast<uint32_t>(tokens));
  return {};
}

void EvaluationSet::keepOnly(size_t file, std::span<const uint32_t> kept) {
  texts[file].keepOnly(kept);
  EvaluatedText &text = identities[file];
  text.samples = texts[file].windows();
  text.units = texts[file].units;
  text.documents = texts[file].documentsUsed();
  text.documentIds = texts[file].documentIds;
}

uint64_t EvaluationSet::samples() const {
  uint64_t count = choiceItems.size() + answerItems.size() + imageFiles.size();
  for (const TextWindows &text : texts)
    count += text.windows();
  return count;
}

uint64_t EvaluationSet::memoryBytes(bool hasReference, uint32_t wholeTokens) const {
  uint64_t bytes = heldBytes + samples() * sizeof(SampleScore);
  if (hasReference)
    bytes += uint64_t(stepTokensOf(longestTokens, vocabularySize, true, wholeTokens)) *
             vocabularySize * sizeof(float);
  return bytes;
}

EngineOptions EvaluationSet::engineOptions(EngineOptions engine) const {
  engine.contextTokens = longestTokens;
  if (images)
    engine.prefillChunk = longestTokens;
  engine.decodesInBatches = true;
  engine.logitsRows = std::min(kLogitsRows, longestTokens);
  return engine;
}

Result<std::vector<SampleScore>> EvaluationSet::evaluate(LogitsSource &artifact,
                                                         LogitsSource *reference,
                                                         const EvaluationProgress &progress,
                                                         const std::atomic<bool> *stop) const {
  const uint32_t stepTokens =
      stepTokensOf(longestTokens, vocabularySize, reference != nullptr, artifact.wholeTokens());
  if (isOfItems(metric))
    return evaluateEach(samples(), "item", stepTokens, artifact, reference, progress, stop,
                        [&](uint64_t item, PairedPass &pass) {
                          return scoreItem(item, artifact, reference, pass, stop);
                        });
  EvaluationOptions options = windows;
  options.stepTokens = stepTokens;
  return moert::evaluate(texts, options, artifact, reference, progress, stop);
}

std::vector<int32_t> EvaluationSet::itemTokens(uint64_t item) const {
  if (metric != LossMetric::kChoice)
    return answerItems[item].withAnswer;
  const EncodedChoice &choice = choiceItems[item];
  std::vector<int32_t> tokens = choice.question;
  const std::vector<int32_t> &right = choice.choices[choice.answer];
  tokens.insert(tokens.end(), right.begin(), right.end());
  return tokens;
}

Result<SampleScore> EvaluationSet::evaluateItem(uint64_t item, LogitsSource &artifact,
                                                LogitsSource *reference,
                                                const std::atomic<bool> *stop) const {
  MOERT_RETURN_IF_ERROR(checkVocabularies(artifact, reference));
  PairedPass pass(
      stepTokensOf(longestTokens, vocabularySize, reference != nullptr, artifact.wholeTokens()),
      artifact, reference, stop);
  return scoreItem(item, artifact, reference, pass, stop);
}

Result<SampleScore> EvaluationSet::evaluateImage(uint64_t image, PairedPass &pass) const {
  const auto label = static_cast<int32_t>(images->all()[image].label);
  const int32_t tokens[] = {static_cast<int32_t>(image), label};
  SampleScore score;
  score.text = imageFiles[image];
  score.unit = static_cast<uint32_t>(image);
  score.items = 1;
  const auto points = [label](std::span<const float> logits) {
    return std::max_element(logits.begin(), logits.end()) - logits.begin() == label;
  };
  MOERT_RETURN_IF_ERROR(pass.beginUnit());
  const Status status = pass.run(
      tokens, 0,
      [&](uint32_t, std::span<const float> logits, std::span<const float> reference) -> Status {
        MOERT_ASSIGN_OR_RETURN(const RowScore row, scoreRow(logits, reference, label));
        score.add(row);
        score.points = points(logits);
        if (!reference.empty())
          score.referencePoints = points(reference);
        return {};
      });
  if (!status.isOk())
    return status.withContext(images->all()[image].path);
  return score;
}

Result<SampleScore> EvaluationSet::scoreItem(uint64_t item, LogitsSource &artifact,
                                             LogitsSource *reference, PairedPass &pass,
                                             const std::atomic<bool> *stop) const {
  if (metric == LossMetric::kChoice)
    return evaluateChoice(choiceItems[item], pass);
  if (images)
    return evaluateImage(item, pass);
  return evaluateAnswer(answerItems[item], {metric, answers, *tokenizer, artifact, reference, stop},
                        pass);
}

} // namespace moert
