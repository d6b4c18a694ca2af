#include "compiler/accuracy/AcceptanceItems.h"

#include "compiler/accuracy/SearchSummary.h"
#include "runtime/base/InputText.h"
#include "runtime/base/Utf8.h"
#include "runtime/evaluation/LossBound.h"

using namespace moert;

namespace moec {

// U+0080 to U+009F: control characters that JSON does not escape.
static bool hasLateControl(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = firstCodePoint(text);
    if (point.value >= 0x80 && point.value < 0xA0)
      return true;
    text.remove_prefix(point.length);
  }
  return false;
}

static Status checkOptions(const AcceptanceItems &items) {
  constexpr size_t kMaxOptionBytes = 1024; // No sensible one is longer.
  for (const auto &[option, value] : items.options) {
    MOERT_RETURN_IF_ERROR(checkUtf8(value, strCat("--", option)));
    if (value.size() > kMaxOptionBytes)
      return invalidInput("--", option, " has ", value.size(), " bytes, expected at most ",
                          kMaxOptionBytes);
    if (hasLateControl(value))
      return invalidInput("--", option,
                          " has control characters from U+0080 to U+009F, which an "
                          "artifact cannot carry");
  }
  return {};
}

/// Follows the number of kept items.
static const char *whichAreKept(const AcceptanceItems &items) {
  return items.kept.size() < items.set->samples() ? " that calibration and search have not read"
                                                  : "";
}

Status AcceptanceItems::leaveOut(const std::vector<bool> &seen) {
  kept.clear();
  for (uint32_t item = 0; item < seen.size(); ++item)
    if (!seen[item])
      kept.push_back(item);
  if (kept.size() < kMinimumBoundUnits)
    return invalidInput("--eval-text has ", kept.size(), " ", set->sampleName(),
                        whichAreKept(*this), ", expected at least ", kMinimumBoundUnits,
                        ": fewer have no bound");
  return {};
}

Status AcceptanceItems::checkReach(double target, const AcceptanceTurn &turn) const {
  SampleScore known;
  known.referencePoints = 1;
  const double confidence = turn.levels.confidence(AcceptanceChain::kMain);
  const double least = leastBound(std::vector(kept.size(), known), confidence);
  if (least <= target)
    return {};
  const std::string found =
      strCat("--eval-text has ", kept.size(), " ", set->sampleName(), whichAreKept(*this),
             ", which can show no loss below ", formatLoss(least, LossMetric::kChoice),
             " even if the reference answers all of them");
  const std::string other =
      strCat("another --accuracy-loss than ", formatLoss(target, LossMetric::kChoice));
  if (turn.compile == 1)
    return invalidInput(found, ", expected more of them or ", other);
  return invalidInput(found, ": this is ", turn.text(), ", whose tests need ",
                      formatConfidence(confidence),
                      " confidence; expected new items, more of them, "
                      "or ",
                      other);
}

std::vector<uint32_t> AcceptanceItems::keptOf(size_t file) const {
  uint64_t first = 0;
  for (size_t i = 0; i < file; ++i)
    first += set->textsRead()[i].samples;
  std::vector<uint32_t> items;
  for (uint32_t item : kept)
    if (item >= first && item - first < set->textsRead()[file].samples)
      items.push_back(uint32_t(item - first));
  return items;
}

std::vector<DocumentId> AcceptanceItems::keptIds() const {
  std::vector<DocumentId> all, ids;
  for (const EvaluatedText &text : set->textsRead())
    all.insert(all.end(), text.documentIds.begin(), text.documentIds.end());
  for (uint32_t item : kept)
    ids.push_back(all[item]);
  return ids;
}

static Status addFiles(AcceptanceItems &items, const std::vector<std::string> &paths) {
  for (size_t i = 0; i < paths.size(); ++i) {
    const EvaluatedText &read = items.set->textsRead()[i];
    SearchText &file = items.files.emplace_back();
    MOERT_ASSIGN_OR_RETURN(file.name, nameOfText(paths[i]));
    file.hash = read.hash;
    file.bytes = read.bytes;
  }
  return checkDistinct(items.files, paths);
}

Result<std::unique_ptr<AcceptanceItems>> readAcceptanceItems(const AccurateCompileRequest &request,
                                                             const ModelDescription &model,
                                                             std::vector<std::byte> table,
                                                             std::optional<ImageModel> images) {
  auto items = std::make_unique<AcceptanceItems>();
  items->table = std::move(table);
  if (!images) {
    MOERT_ASSIGN_OR_RETURN(items->tokenizer, Tokenizer::load(items->table, model.vocabularySize));
  }
  EvaluationRequest evaluation;
  evaluation.metric = request.metric;
  evaluation.files = request.acceptanceTexts;
  evaluation.choiceBy = request.choiceBy;
  evaluation.answers = request.answers;
  items->options = itemOptionsOf(evaluation);
  MOERT_RETURN_IF_ERROR(checkOptions(*items));
  ModelInfo info;
  info.vocabularySize = model.vocabularySize;
  info.maxPositions = model.maxPositions;
  info.eosTokens = model.eosTokens;
  MOERT_ASSIGN_OR_RETURN(
      items->set,
      EvaluationSet::read(evaluation,
                          {request.checkpointDirectory, info,
                           items->tokenizer ? &*items->tokenizer : nullptr, std::move(images)},
                          [](const std::string &) {}));
  MOERT_RETURN_IF_ERROR(addFiles(*items, request.acceptanceTexts));
  MOERT_RETURN_IF_ERROR(items->leaveOut(std::vector<bool>(items->set->samples())));
  return items;
}

} // namespace moec
