#include "compiler/search/WindowLanes.h"

#include "tests/unit/emit/TinyPlan.h"
#include "tests/unit/engine/SyntheticModel.h"
#include "tests/unit/evaluation/TableSource.h"
#include "tests/unit/search/WindowSetTexts.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

constexpr uint32_t kWindow = 4;

static EvaluationOptions windowsOfFour() {
  EvaluationOptions options;
  options.windowTokens = options.stepTokens = kWindow;
  return options;
}

/// Windows that differ from each other, of two texts.
static WindowSet manyWindows() {
  WindowSet set;
  for (int32_t text = 0; text < 2; ++text) {
    std::vector<int32_t> &ids = set.ids.emplace_back();
    for (int32_t i = 0; i < 40; ++i)
      ids.push_back((i * i + 3 * i * text + i / 4) % 5);
    set.units.push_back({0, 0, 0, 1, 2, 2, 2, 3, 3, 4});
  }
  return set;
}

TEST_CASE("scores come in the order of the windows, whichever lane evaluated them") {
  const WindowSet set = manyWindows();
  TableSource one = tableModel(2), reference = tableModel(1);
  auto expected = evaluate(textsOf(set, kWindow), windowsOfFour(), one, &reference);
  REQUIRE(expected.isOk());
  REQUIRE(expected->size() == 20);
  for (size_t count : {1u, 2u, 5u}) {
    CAPTURE(count);
    std::vector<TableSource> artifacts(count, tableModel(2)), references(count, tableModel(1));
    std::vector<WindowLane> lanes;
    for (size_t i = 0; i < count; ++i)
      lanes.push_back({&artifacts[i], &references[i], nullptr});
    uint64_t heard = 0;
    auto scores = evaluateWindows(
        set, windowsOfFour(), lanes,
        [&](uint64_t done, uint64_t all) {
          CHECK(done == heard + 1);
          CHECK(all == 20);
          heard = done;
        },
        nullptr);
    REQUIRE(scores.isOk());
    CHECK(heard == 20);
    REQUIRE(scores->size() == 20);
    for (size_t i = 0; i < 20; ++i) {
      CHECK((*scores)[i].text == (*expected)[i].text);
      CHECK((*scores)[i].unit == (*expected)[i].unit);
      CHECK((*scores)[i].lossNats == (*expected)[i].lossNats);
      CHECK((*scores)[i].kl() == (*expected)[i].kl());
    }
  }
}

TEST_CASE("a failure names its window and ends all lanes") {
  WindowSet set;
  set.ids = {{0, 1, 2, 3, 0, 1, 1, 1, 4, 1, 2, 3}};
  set.units = {{0, 1, 1}};
  TableSource first = tableModel(1), second = tableModel(1);
  first.brokenToken = second.brokenToken = 4;
  const WindowLane lanes[] = {{&first, nullptr, nullptr}, {&second, nullptr, nullptr}};
  Status status = evaluateWindows(set, windowsOfFour(), lanes, {}, nullptr).status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find("window 3 of 3") != std::string::npos);
}

TEST_CASE("a stop ends all lanes") {
  TableSource first = tableModel(1), second = tableModel(1);
  const WindowLane lanes[] = {{&first, nullptr, nullptr}, {&second, nullptr, nullptr}};
  std::atomic<bool> stop = true;
  CHECK(evaluateWindows(manyWindows(), windowsOfFour(), lanes, {}, &stop).status().code() ==
        StatusCode::kInterrupted);
}

TEST_CASE("a crew has a member for each thread where memory allows it") {
  TemporaryDirectory directory;
  const std::string paths[] = {directory.path("a.moe"), directory.path("b.moe")};
  for (const std::string &path : paths)
    REQUIRE(test::writeSyntheticModel(path, {}).isOk());
  auto crews = loadCrews(paths, 16, 3);
  REQUIRE_MESSAGE(crews.isOk(), crews.status().message());
  REQUIRE(crews->size() == 2);
  for (const EngineCrew &crew : *crews)
    CHECK(crew.members.size() == 3);
}
