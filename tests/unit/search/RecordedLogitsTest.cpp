#include "compiler/search/RecordedLogits.h"

#include "compiler/search/SearchTexts.h"
#include "runtime/evaluation/Evaluation.h"
#include "tests/unit/emit/TinyPlan.h"
#include "tests/unit/evaluation/TableSource.h"
#include "tests/unit/search/WindowSetTexts.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>

using namespace moec;
using namespace moert;

constexpr uint32_t kWindow = 4;

static WindowSet setOf(std::vector<std::vector<int32_t>> ids) {
  WindowSet set;
  set.ids = std::move(ids);
  for (const std::vector<int32_t> &text : set.ids)
    set.units.emplace_back(text.size() / kWindow);
  return set;
}

static const WindowSet kTexts = setOf({{0, 1, 2, 3, 4, 3, 2, 1}, {}, {2, 2, 0, 4}});

static EvaluationOptions windowsOf(uint32_t stepTokens) {
  EvaluationOptions options;
  options.windowTokens = kWindow;
  options.stepTokens = stepTokens;
  return options;
}

static Result<std::vector<SampleScore>> executeAlone(const WindowSet &set, uint32_t stepTokens,
                                                     LogitsSource &artifact,
                                                     LogitsSource *reference) {
  return evaluate(textsOf(set, kWindow), windowsOf(stepTokens), artifact, reference);
}

/// Records the reference on all windows in steps of so many tokens.
static void record(const std::string &path, uint32_t stepTokens = kWindow) {
  TableSource reference = tableModel(1);
  auto recording = RecordingLogits::create(reference, path, kWindow);
  REQUIRE(recording.isOk());
  REQUIRE(executeAlone(kTexts, stepTokens, **recording, nullptr).isOk());
}

static bool areSameBits(const std::vector<SampleScore> &a, const std::vector<SampleScore> &b) {
  auto same = [](const SampleScore &x, const SampleScore &y) {
    const double left[] = {x.lossNats, x.referenceLossNats, x.kl(), x.agreement()};
    const double right[] = {y.lossNats, y.referenceLossNats, y.kl(), y.agreement()};
    return x.text == y.text && std::memcmp(left, right, sizeof(left)) == 0;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

TEST_CASE("a recording does not change what is measured") {
  TemporaryDirectory directory;
  TableSource model = tableModel(1);
  auto plain = evaluate(textsOf(kTexts, kWindow), windowsOf(kWindow), model, nullptr);
  auto recording = RecordingLogits::create(model, directory.path("rows"), kWindow);
  REQUIRE(recording.isOk());
  CHECK((*recording)->vocabularySize() == 5);
  auto recorded = executeAlone(kTexts, kWindow, **recording, nullptr);
  REQUIRE(plain.isOk());
  REQUIRE(recorded.isOk());
  CHECK(areSameBits(*plain, *recorded));
}

TEST_CASE("rows are replayed bit for bit, in any steps, any number of times") {
  TemporaryDirectory directory;
  TableSource candidate = tableModel(2), reference = tableModel(1);
  auto expected = evaluate(textsOf(kTexts, kWindow), windowsOf(kWindow), candidate, &reference);
  REQUIRE(expected.isOk());
  REQUIRE(expected->size() == 3);
  REQUIRE(expected->front().kl() > 0);
  for (uint32_t recordedStep : {1u, 3u, 4u}) {
    record(directory.path("rows"), recordedStep);
    for (uint32_t step : {1u, 2u, 3u, 4u}) {
      auto executed = ReplayedLogits::open(directory.path("rows"), 5, kWindow);
      REQUIRE(executed.isOk());
      CAPTURE(recordedStep);
      CAPTURE(step);
      auto scores = executeAlone(kTexts, step, candidate, executed->get());
      REQUIRE_MESSAGE(scores.isOk(), scores.status().message());
      CHECK(areSameBits(*scores, *expected));
    }
  }
}

TEST_CASE("a recording that ends early is refused with the row, rows before it are replayed") {
  TemporaryDirectory directory;
  const std::string path = directory.path("rows");
  record(path);
  const uint64_t rowBytes = 5 * sizeof(float);
  REQUIRE(std::filesystem::file_size(path) == 3 * kWindow * rowBytes);
  std::filesystem::resize_file(path, 6 * rowBytes - 1);
  auto executed = ReplayedLogits::open(path, 5, kWindow);
  REQUIRE(executed.isOk());
  TableSource candidate = tableModel(2);
  const WindowSet first = setOf({{0, 1, 2, 3}});
  CHECK(executeAlone(first, 1, candidate, executed->get()).isOk());
  executed = ReplayedLogits::open(path, 5, kWindow);
  REQUIRE(executed.isOk());
  Status status = executeAlone(kTexts, 1, candidate, executed->get()).status();
  CHECK(status.code() == StatusCode::kFailed);
  CHECK(status.message().find("row 5: ") != std::string::npos);
  CHECK(status.message().find("rows ends at 119, expected 1 bytes more") != std::string::npos);
}

TEST_CASE("a recording that is not there is refused by its name") {
  TemporaryDirectory directory;
  Status status = ReplayedLogits::open(directory.path("absent"), 5, kWindow).status();
  CHECK_FALSE(status.isOk());
  CHECK(status.message().find("absent") != std::string::npos);
  TableSource model = tableModel(1);
  CHECK_FALSE(RecordingLogits::create(model, directory.path("absent/rows"), kWindow).isOk());
}
