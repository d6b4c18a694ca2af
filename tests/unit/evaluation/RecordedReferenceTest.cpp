// Losses from the reference scores stored in an artifact: the right windows, in the right order,
// and notes about files without a loss.
#include "runtime/evaluation/RecordedReference.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moert;

namespace {

constexpr EvaluatedText kBooks = {11, 1000, 6}, kMath = {22, 2000, 8}, kNews = {33, 3000, 5};
const EvaluationOptions kWindows = {64, 1, 1};

/// A find() with its notes.
struct Found {
  Result<std::optional<RecordedReference>> reference;
  std::vector<std::string> notes;
};

} // namespace

// The reference's loss on window w of text t.
static double natsOf(uint32_t text, uint32_t window) {
  return 100 + text + window / 8.0;
}

static MeasuredText measuredText(const char *name, uint32_t text, const EvaluatedText &found,
                                 const std::vector<uint32_t> &windows) {
  MeasuredText measured = {name, found.hash, found.bytes, windows, {}};
  for (uint32_t window : windows)
    measured.referenceNats.push_back(natsOf(text, window));
  return measured;
}

// All windows of math, then every second one of books.
static Measured measuredTexts() {
  Measured measured;
  measured.metric = "perplexity";
  measured.windowTokens = 64;
  measured.confidence = 0.96875;
  measured.acceptanceTexts = {measuredText("math.txt", 1, kMath, {0, 1, 2, 3, 4, 5, 6, 7}),
                              measuredText("books.txt", 0, kBooks, {0, 2, 4})};
  return measured;
}

static Found find(const Measured &measured, const std::vector<std::string> &files,
                  const std::vector<EvaluatedText> &texts,
                  const EvaluationOptions &windows = kWindows) {
  std::vector<std::string> notes;
  EvaluationRequest request;
  request.files = files;
  request.windows = windows;
  auto reference = RecordedReference::find(
      measured, request, texts, [&notes](const std::string &note) { notes.push_back(note); });
  return {std::move(reference), notes};
}

// What an evaluation gives for files that are texts of the given windows; lossNats names each.
static std::vector<SampleScore> evaluated(const std::vector<EvaluatedText> &texts) {
  std::vector<SampleScore> samples;
  for (uint32_t t = 0; t < texts.size(); ++t)
    for (uint32_t w = 0; w < texts[t].samples; ++w) {
      SampleScore &sample = samples.emplace_back();
      sample.text = t;
      sample.tokens = 63;
      sample.lossNats = 1000 * double(t) + w + std::sqrt(w + 2.0);
    }
  return samples;
}

TEST_CASE(
    "texts are known that widths or a miss rule were accepted on, not those of a measurement") {
  Artifact artifact;
  artifact.plans.resize(2);
  CHECK_FALSE(wasAcceptedOn(artifact, kMath));
  artifact.measured = measuredTexts();
  CHECK(wasAcceptedOn(artifact, kMath));
  CHECK_FALSE(wasAcceptedOn(artifact, kNews));
  artifact.plans[1].loss.emplace().texts = {{"news.txt", kNews.hash, kNews.bytes}};
  CHECK_FALSE(wasAcceptedOn(artifact, kNews));
  artifact.plans[1].loss->confidence = 0.964;
  CHECK(wasAcceptedOn(artifact, kNews));
}

TEST_CASE("recorded windows get the reference's losses, in the artifact's order of texts") {
  std::vector<EvaluatedText> texts = {kNews, kBooks, kMath};
  Found found = find(measuredTexts(), {"news.txt", "there/books.txt", "math.txt"}, texts);
  REQUIRE(found.reference.isOk());
  REQUIRE(*found.reference);
  std::vector<SampleScore> samples = evaluated(texts);
  std::vector<SampleScore> paired = (*found.reference)->beside(samples);
  REQUIRE(paired.size() == 11);
  for (uint32_t w = 0; w < 8; ++w) {
    CHECK(paired[w].text == 2);
    CHECK(paired[w].lossNats == samples[5 + 6 + w].lossNats);
    CHECK(paired[w].referenceLossNats == natsOf(1, w));
  }
  for (uint32_t i = 0; i < 3; ++i) {
    CHECK(paired[8 + i].text == 1);
    CHECK(paired[8 + i].lossNats == samples[5 + 2 * i].lossNats);
    CHECK(paired[8 + i].referenceLossNats == natsOf(0, 2 * i));
  }
  CHECK((*found.reference)->confidence() == 0.96875);
  CHECK((*found.reference)->memoryBytes() > 11 * sizeof(SampleScore));
}

TEST_CASE("the loss does not depend on the order in which texts are given") {
  auto lossesOf = [](const std::vector<std::string> &files, const std::vector<EvaluatedText> &texts,
                     bool isSwapped) {
    Found found = find(measuredTexts(), files, texts);
    REQUIRE(found.reference.isOk());
    std::vector<SampleScore> samples = evaluated(texts);
    for (SampleScore &sample : samples) // The losses are the texts', not the places'.
      if (isSwapped)
        sample.lossNats += sample.text == 0 ? 1000 : -1000;
    return *lossOf(sumOf((*found.reference)->beside(samples)), LossMetric::kPerplexity);
  };
  CHECK(lossesOf({"books.txt", "math.txt"}, {kBooks, kMath}, false) ==
        lossesOf({"math.txt", "books.txt"}, {kMath, kBooks}, true));
}

TEST_CASE("the note names what the loss covers, and how many texts") {
  Found found = find(measuredTexts(), {"math.txt"}, {kMath});
  REQUIRE(found.reference.isOk());
  CHECK(*found.reference);
  CHECK(found.notes ==
        std::vector<std::string>{"loss: beside the reference's losses that the artifact carries, "
                                 "on 8 windows of 1 of the 2 texts that it was accepted on"});
}

TEST_CASE("an unknown text has no loss, and the note names the reason") {
  EvaluatedText otherBooks = kBooks, cutBooks = kBooks;
  otherBooks.hash = 12;
  cutBooks.bytes = 999;
  Measured measured = measuredTexts();
  measured.acceptanceTexts.push_back(measuredText("news.txt", 2, kNews, {}));
  struct Case {
    const char *name;
    EvaluatedText text;
    const char *reason;
  };
  for (const Case &unknown :
       {Case{"here/other.txt", {44, 4000, 7}, "it is not one of the texts that"},
        {"here/books.txt", otherBooks, "its content is not that of the text of this name"},
        {"here/books.txt", cutBooks, "its content is not that of the text of this name"},
        {"news.txt", kNews, "it is not one of the texts that"}}) {
    Found found = find(measured, {unknown.name}, {unknown.text});
    REQUIRE(found.reference.isOk());
    CHECK_FALSE(*found.reference);
    REQUIRE(found.notes.size() == 1);
    CHECK(found.notes[0].rfind(strCat("'", unknown.name, "': no loss: ") + unknown.reason, 0) == 0);
  }
}

TEST_CASE("a text that is given twice counts as often as it was accepted on") {
  Found found = find(measuredTexts(), {"math.txt", "copy.txt"}, {kMath, kMath});
  REQUIRE(found.reference.isOk());
  REQUIRE(*found.reference);
  CHECK((*found.reference)->beside(evaluated({kMath, kMath})).size() == 8);
  CHECK(found.notes[0] ==
        "'copy.txt': no loss: this text is there more often than the artifact was "
        "accepted on it");
}

TEST_CASE("a text of another name is found by its content") {
  Found found = find(measuredTexts(), {"copy.txt"}, {kMath});
  REQUIRE(found.reference.isOk());
  CHECK(*found.reference);
}

TEST_CASE("other windows have no loss, and the note names them") {
  for (const EvaluationOptions &windows : {EvaluationOptions{32, 1, 1}, {64, 33, 1}}) {
    Found found = find(measuredTexts(), {"math.txt"}, {kMath}, windows);
    REQUIRE(found.reference.isOk());
    CHECK_FALSE(*found.reference);
    CHECK(found.notes == std::vector<std::string>{
                             "no loss: the reference's losses that the artifact carries are of "
                             "windows of 64 tokens, scored from token 1 on"});
  }
}

TEST_CASE("a recorded window that its text does not have is refused") {
  Measured measured = measuredTexts();
  measured.acceptanceTexts[0].windows[7] = 8;
  Found found = find(measured, {"math.txt"}, {kMath});
  REQUIRE(!found.reference.isOk());
  CHECK(found.reference.status().code() == StatusCode::kInvalidInput);
  CHECK(found.reference.status().message() ==
        "the artifact has a loss of the reference for window 8 of math.txt, expected windows "
        "below 8");
}

namespace {

constexpr EvaluatedText kEasy = {44, 400, 3}, kHard = {55, 500, 4};

/// Points of two of three items of one file and of all of another.
Measured measuredItems() {
  Measured measured;
  measured.metric = "exact";
  measured.confidence = 0.96875;
  measured.acceptanceTexts = {
      {"hard.jsonl", kHard.hash, kHard.bytes, {0, 1, 2, 3}, {}, {1, 0, 1, 0}},
      {"easy.jsonl", kEasy.hash, kEasy.bytes, {0, 2}, {}, {1, 0.5}}};
  measured.itemOptions = {{"max-tokens", "64"}, {"stop", "\"\\n\""}, {"answer-after", "\"####\""}};
  return measured;
}

EvaluationRequest itemRequest() {
  EvaluationRequest request;
  request.metric = LossMetric::kExact;
  request.files = {"easy.jsonl", "hard.jsonl"};
  request.answers.maxTokens = 64;
  request.answers.stopTexts = {"\n"};
  request.answers.answerAfter = "####";
  return request;
}

Found findItems(const EvaluationRequest &request) {
  std::vector<std::string> notes;
  auto reference =
      RecordedReference::find(measuredItems(), request, std::vector{kEasy, kHard},
                              [&notes](const std::string &note) { notes.push_back(note); });
  return {std::move(reference), notes};
}

} // namespace

TEST_CASE("recorded items get the reference's points, in the artifact's order of texts") {
  Found found = findItems(itemRequest());
  REQUIRE(found.reference.isOk());
  REQUIRE(*found.reference);
  CHECK(found.notes ==
        std::vector<std::string>{"loss: beside the reference's points that the artifact carries, "
                                 "on 6 items of 2 of the 2 texts that it was accepted on"});
  std::vector<SampleScore> samples(7);
  for (uint32_t i = 0; i < 7; ++i)
    samples[i] = {i < 3 ? 0u : 1u, 0, 10, 5, 0, 0, 0, 1, 0.125 * i, 0};
  std::vector<SampleScore> paired = (*found.reference)->beside(samples);
  const double points[] = {0.375, 0.5, 0.625, 0.75, 0, 0.25}, reference[] = {1, 0, 1, 0, 1, 0.5};
  REQUIRE(paired.size() == 6);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(paired[i].points == points[i]);
    CHECK(paired[i].referencePoints == reference[i]);
    CHECK(paired[i].referenceLossNats == 0);
  }
}

TEST_CASE("items with other options have no loss, and the note names the recorded options") {
  std::vector<EvaluationRequest> others(6, itemRequest());
  others[0].metric = LossMetric::kPerplexity;
  others[1].metric = LossMetric::kRouge2;
  others[2].metric = LossMetric::kChoice;
  others[3].answers.maxTokens = 65;
  others[4].answers.stopTexts.clear();
  others[5].answers.answerAfter = "answer";
  for (const EvaluationRequest &request : others) {
    Found found = findItems(request);
    REQUIRE(found.reference.isOk());
    CHECK_FALSE(*found.reference);
    CHECK(found.notes == std::vector<std::string>{
                             "no loss: the reference's points that the artifact carries are of "
                             "--metric exact --max-tokens 64 --stop \"\\n\" --answer-after "
                             "\"####\""});
  }
}

TEST_CASE("windows that an artifact carries losses of are no items") {
  EvaluationRequest request = itemRequest();
  request.windows = kWindows;
  std::vector<std::string> notes;
  auto reference =
      RecordedReference::find(measuredTexts(), request, std::vector{kBooks, kMath},
                              [&notes](const std::string &note) { notes.push_back(note); });
  REQUIRE(reference.isOk());
  CHECK_FALSE(*reference);
  CHECK(notes.size() == 1);
}

TEST_CASE("a recorded item that its text does not have is refused") {
  Measured measured = measuredItems();
  measured.acceptanceTexts[1].windows[1] = 3;
  auto reference = RecordedReference::find(measured, itemRequest(), std::vector{kEasy, kHard},
                                           [](const std::string &) {});
  CHECK(reference.status().code() == StatusCode::kInvalidInput);
  CHECK(reference.status().message() ==
        "the artifact has points of the reference for item 3 of easy.jsonl, expected items below "
        "3");
}

TEST_CASE("choices by letter and by text are other options, and windows have none") {
  EvaluationRequest request;
  CHECK(itemOptionsOf(request).empty());
  request.metric = LossMetric::kChoice;
  CHECK(itemOptionsOf(request) ==
        std::vector<std::pair<std::string, std::string>>{{"choice-by", "letter"}});
  request.choiceBy = ChoiceBy::kText;
  CHECK(itemOptionsOf(request) ==
        std::vector<std::pair<std::string, std::string>>{{"choice-by", "text"}});
}
