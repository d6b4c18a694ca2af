#include "runtime/evaluation/RecordedReference.h"

#include "runtime/base/InputText.h"
#include "runtime/evaluation/LossBound.h"

#include <algorithm>
#include <string_view>

namespace moert {

static std::string_view withoutDirectory(std::string_view path) {
  return path.substr(path.rfind('/') + 1); // All of it where there is no '/'.
}

static bool isSame(const auto &text, const EvaluatedText &file) {
  return text.hash == file.hash && text.bytes == file.bytes;
}

bool wasAcceptedOn(const Artifact &artifact, const EvaluatedText &text) {
  constexpr double kMeasuredConfidence = 0.95; // Tests have more.
  auto isText = [&text](const auto &known) { return isSame(known, text); };
  auto isAcceptedOn = [&](const Plan &plan) {
    return plan.loss && plan.loss->confidence > kMeasuredConfidence &&
           std::ranges::any_of(plan.loss->texts, isText);
  };
  return (artifact.measured && std::ranges::any_of(artifact.measured->acceptanceTexts, isText)) ||
         std::ranges::any_of(artifact.plans, isAcceptedOn);
}

// The reason that a file has no loss.
static std::string unknownText(const Measured &measured, const std::string &file,
                               const EvaluatedText &found) {
  const std::string text = strCat(inputName(file), ": no loss: ");
  auto isKnown = [&](auto isLike) {
    return std::any_of(
        measured.acceptanceTexts.begin(), measured.acceptanceTexts.end(),
        [&](const MeasuredText &known) { return !known.windows.empty() && isLike(known); });
  };
  if (isKnown([&](const MeasuredText &known) { return isSame(known, found); }))
    return text + "this text is there more often than the artifact was accepted on it";
  if (isKnown([&](const MeasuredText &known) { return known.name == withoutDirectory(file); }))
    return text + "its content is not that of the text of this name that the artifact was "
                  "accepted on";
  return text + "it is not one of the texts that the artifact was accepted on";
}

// The first unused file with the content of `text`; files.size() if there is none.
static size_t fileOf(const MeasuredText &text, std::span<const EvaluatedText> files,
                     const std::vector<bool> &isTaken) {
  size_t file = 0;
  while (file < files.size() && (isTaken[file] || !isSame(text, files[file])))
    ++file;
  return file;
}

Status RecordedReference::take(const MeasuredText &text, const EvaluatedText &found,
                               uint64_t firstSample) {
  for (size_t i = 0; i < text.windows.size(); ++i) {
    const uint32_t sample = text.windows[i];
    if (sample >= found.samples)
      return isOnItems
                 ? invalidInput("the artifact has points of the reference for item ", sample,
                                " of ", text.name, ", expected items below ", found.samples)
                 : invalidInput("the artifact has a loss of the reference for window ", sample,
                                " of ", text.name, ", expected windows below ", found.samples);
    recorded.push_back(
        {firstSample + sample, isOnItems ? text.referencePoints[i] : text.referenceNats[i]});
  }
  return {};
}

// Describes the recorded scores if the request needs different ones; otherwise empty.
static std::string otherThan(const Measured &measured, const EvaluationRequest &request) {
  if (!measured.isOnItems()) {
    if (!isOfItems(request.metric) && request.windows.windowTokens == measured.windowTokens &&
        request.windows.scoreFrom == 1)
      return {};
    return strCat("losses that the artifact carries are of windows of ", measured.windowTokens,
                  " tokens, scored from token 1 on");
  }
  if (metricName(request.metric) == measured.metric &&
      itemOptionsOf(request) == measured.itemOptions)
    return {};
  std::string options;
  for (const auto &[option, value] : measured.itemOptions)
    options += strCat(" --", option, " ", value);
  return strCat("points that the artifact carries are of --metric ", measured.metric, options);
}

Result<std::optional<RecordedReference>>
RecordedReference::find(const Measured &measured, const EvaluationRequest &request,
                        std::span<const EvaluatedText> texts, const TakeNote &note) {
  if (const std::string other = otherThan(measured, request); !other.empty()) {
    note(strCat("no loss: the reference's ", other));
    return std::optional<RecordedReference>();
  }
  RecordedReference reference;
  reference.boundConfidence = measured.confidence;
  reference.isOnItems = measured.isOnItems();
  std::vector<uint64_t> firstSamples(texts.size());
  for (size_t i = 1; i < texts.size(); ++i)
    firstSamples[i] = firstSamples[i - 1] + texts[i - 1].samples;
  std::vector<bool> isTaken(texts.size());
  uint64_t known = 0, all = 0;
  for (const MeasuredText &text : measured.acceptanceTexts) {
    if (text.windows.empty())
      continue;
    ++all;
    const size_t file = fileOf(text, texts, isTaken);
    if (file == texts.size())
      continue;
    isTaken[file] = true;
    ++known;
    MOERT_RETURN_IF_ERROR(reference.take(text, texts[file], firstSamples[file]));
  }
  for (size_t file = 0; file < texts.size(); ++file)
    if (!isTaken[file])
      note(unknownText(measured, request.files[file], texts[file]));
  if (known == 0)
    return std::optional<RecordedReference>();
  note(strCat("loss: beside the reference's ", reference.isOnItems ? "points" : "losses",
              " that the artifact carries, on ", reference.recorded.size(),
              reference.isOnItems ? " items of " : " windows of ", known, " of the ", all,
              " texts that it was accepted on"));
  return std::optional(std::move(reference));
}

std::vector<SampleScore> RecordedReference::beside(std::span<const SampleScore> samples) const {
  std::vector<SampleScore> paired;
  paired.reserve(recorded.size());
  for (const auto &[sample, score] : recorded) {
    paired.push_back(samples[sample]);
    (isOnItems ? paired.back().referencePoints : paired.back().referenceLossNats) = score;
  }
  return paired;
}

uint64_t RecordedReference::memoryBytes() const {
  return recorded.capacity() * (sizeof(Recorded) + sizeof(SampleScore)) +
         lossBoundMemoryBytes(recorded.size());
}

} // namespace moert
