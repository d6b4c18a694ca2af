// The judge on a synthetic model, in which an assignment sets the experts' widths: the expected
// measurement comes from evaluating the two artifacts side by side.
#include "compiler/search/ArtifactJudge.h"

#include "runtime/base/RandomStream.h"
#include "runtime/engine/Engine.h"
#include "runtime/evaluation/EngineSource.h"
#include "runtime/evaluation/LossBound.h"
#include "tests/unit/emit/TinyPlan.h"
#include "tests/unit/engine/SyntheticModel.h"
#include "tests/unit/search/WindowSetTexts.h"
#include "tests/unit/tokenizer/TestTokenizers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>

using namespace moec;
using namespace moert;

constexpr uint32_t kWindow = 16;

static WindowSet randomWindows(RandomStream &random, const std::vector<uint64_t> &ofTexts) {
  WindowSet set;
  for (uint64_t windows : ofTexts) {
    std::vector<int32_t> &ids = set.ids.emplace_back();
    for (uint64_t i = 0; i < windows * kWindow; ++i)
      ids.push_back(int32_t(random.nextBelow(test::kVocabulary)));
    set.units.emplace_back(windows);
    std::iota(set.units.back().begin(), set.units.back().end(), 0); // Each is a document.
    set.windows += windows;
  }
  return set;
}

static void writeModel(const std::string &path, WeightKind experts) {
  test::SyntheticOptions options;
  options.experts = experts;
  auto written = test::writeSyntheticModel(path, options);
  REQUIRE_MESSAGE(written.isOk(), written.status().message());
}

namespace {

struct Fixture {
  explicit Fixture(LossMetric metric = LossMetric::kPerplexity) {
    RandomStream random(3);
    windows.probe = randomWindows(random, {2, 2});
    windows.rest = randomWindows(random, {9, 11});
    windows.acceptance = randomWindows(random, {24});
    options.directory = directory.path("work");
    options.referencePath = directory.path("reference.moe");
    options.metric = metric;
    options.windowTokens = kWindow;
    options.fingerprint = 9;
    options.levels = {0.02, 0.01};
    options.target.mean = 0;
    std::filesystem::create_directory(options.directory);
    writeModel(options.referencePath, WeightKind::kF32);
  }

  /// An assignment's first number is the width: 0 is that of the reference.
  std::unique_ptr<ArtifactJudge> judge() {
    auto made = ArtifactJudge::create(
        options, windows, [this](const WidthAssignment &assignment, const std::string &path) {
          ++artifacts;
          const WeightKind kinds[] = {WeightKind::kF32, WeightKind::kInt4};
          writeModel(path, kinds[assignment.at(0)]);
          return Status();
        });
    REQUIRE_MESSAGE(made.isOk(), made.status().message());
    return std::move(made).value();
  }

  TemporaryDirectory directory;
  SearchWindows windows;
  JudgeOptions options;
  size_t artifacts = 0; // Made so far.
};

/// One artifact, opened.
struct LoadedEngine {
  explicit LoadedEngine(const std::string &path) {
    auto opened = Model::open(path);
    REQUIRE(opened.isOk());
    model = std::move(opened).value();
    EngineOptions engineOptions;
    engineOptions.contextTokens = kWindow;
    engineOptions.logitsRows = kWindow;
    auto account = accountMemory(*model, engineOptions);
    REQUIRE(account.isOk());
    auto loaded = Engine::load(*model, engineOptions, *account);
    REQUIRE_MESSAGE(loaded.isOk(), loaded.status().message());
    engine = std::move(loaded).value();
    auto created = EngineSource::create(*engine);
    REQUIRE(created.isOk());
    source = std::move(created).value();
  }
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<EngineSource> source;
};

} // namespace

static std::vector<SampleScore> sideBySide(const Fixture &fixture, const WindowSet &set) {
  const std::string path = fixture.directory.path("other.moe");
  writeModel(path, WeightKind::kInt4);
  LoadedEngine candidate(path), reference(fixture.options.referencePath);
  EvaluationOptions options;
  options.windowTokens = options.stepTokens = kWindow;
  auto scores = evaluate(textsOf(set, kWindow), options, *candidate.source, reference.source.get());
  REQUIRE(scores.isOk());
  return std::move(scores).value();
}

TEST_CASE("the reference compared with itself has a loss of exactly zero") {
  for (LossMetric metric : {LossMetric::kPerplexity, LossMetric::kKl, LossMetric::kTop1}) {
    Fixture fixture(metric);
    auto judge = fixture.judge();
    auto probe = judge->probe({0});
    REQUIRE_MESSAGE(probe.isOk(), probe.status().message());
    CHECK(*probe == 0);
    auto measured = judge->measure({0});
    REQUIRE_MESSAGE(measured.isOk(), measured.status().message());
    CHECK(*measured == Measurement{});
    auto accepted = judge->accept({0}, AcceptanceChain::kMain);
    REQUIRE_MESSAGE(accepted.isOk(), accepted.status().message());
    CHECK(*accepted == TestResult::kPassed);
    CHECK(judge->acceptance({0}).loss == 0);
    CHECK(judge->acceptance({0}).upperBound == 0);
  }
}

TEST_CASE("a measurement equals an evaluation of both artifacts side by side, by any metric") {
  for (LossMetric metric : {LossMetric::kPerplexity, LossMetric::kKl, LossMetric::kTop1}) {
    Fixture fixture(metric);
    auto judge = fixture.judge();
    std::vector<SampleScore> probe = sideBySide(fixture, fixture.windows.probe);
    std::vector<SampleScore> all = sideBySide(fixture, fixture.windows.rest);
    all.insert(all.end(), probe.begin(), probe.end());
    const SampleScore sum = sumOf(all);
    auto probed = judge->probe({1});
    auto measured = judge->measure({1});
    REQUIRE(probed.isOk());
    REQUIRE_MESSAGE(measured.isOk(), measured.status().message());
    CHECK(*probed == doctest::Approx(sumOf(probe).kl()).epsilon(1e-12));
    CHECK(*probed > 0);
    CHECK(measured->loss == doctest::Approx(*lossOf(sum, metric)).epsilon(1e-12));
    // An acceptance test has 24 units, the search's windows are 20: their errors add up.
    std::stable_sort(all.begin(), all.end(), [](const SampleScore &a, const SampleScore &b) {
      return std::pair(a.text, a.unit) < std::pair(b.text, b.unit);
    });
    const double ratio = 20.0 / 24, bound = *lossUpperBound(all, metric);
    const double error = (bound - measured->loss) / 1.6449;
    CHECK(measured->predictedBound ==
          doctest::Approx(measured->loss + error * std::sqrt(ratio) * 2.0537).epsilon(0.001));
    REQUIRE(measured->spread);
    CHECK(*measured->spread ==
          doctest::Approx(error * std::sqrt(1 + ratio) / measured->predictedBound).epsilon(0.001));
  }
}

TEST_CASE(
    "an acceptance test has its own windows, keeps their scores, and has its own confidence") {
  Fixture fixture;
  auto judge = fixture.judge();
  std::vector<SampleScore> expected = sideBySide(fixture, fixture.windows.acceptance);
  for (AcceptanceChain chain : {AcceptanceChain::kMain, AcceptanceChain::kReserve}) {
    auto result = judge->accept({1}, chain);
    REQUIRE_MESSAGE(result.isOk(), result.status().message());
    const AcceptanceScores &found = judge->acceptance({1});
    REQUIRE(found.samples.size() == 24);
    CHECK(found.confidence == fixture.options.levels.confidence(chain));
    CHECK(found.loss == *lossOf(sumOf(expected), LossMetric::kPerplexity));
    CHECK(found.upperBound == *lossUpperBound(expected, LossMetric::kPerplexity, found.confidence));
    for (size_t i = 0; i < 24; ++i) {
      CHECK(found.samples[i].lossNats == expected[i].lossNats);
      CHECK(found.samples[i].referenceLossNats == expected[i].referenceLossNats);
      CHECK(found.samples[i].unit == i);
    }
  }
}

TEST_CASE("a test of a divergence executes both models") {
  Fixture fixture(LossMetric::kKl);
  auto judge = fixture.judge();
  const std::vector<SampleScore> expected = sideBySide(fixture, fixture.windows.acceptance);
  REQUIRE(judge->accept({1}, AcceptanceChain::kMain).isOk());
  const AcceptanceScores &found = judge->acceptance({1});
  CHECK(found.loss == *lossOf(sumOf(expected), LossMetric::kKl));
  for (size_t i = 0; i < 24; ++i)
    CHECK(found.samples[i].kl() == expected[i].kl());
}

TEST_CASE("losses of the reference that a text has are not computed again, and give the same") {
  Fixture fixture, known;
  auto judge = fixture.judge();
  REQUIRE(judge->measure({1}).isOk());
  REQUIRE(judge->accept({1}, AcceptanceChain::kMain).isOk());
  for (WindowSet *set : {&known.windows.rest, &known.windows.acceptance}) {
    set->referenceNats.resize(set->units.size());
    for (const SampleScore &score : sideBySide(known, *set))
      set->referenceNats[score.text].push_back(score.referenceLossNats);
  }
  auto knowing = known.judge();
  CHECK(*knowing->measure({1}) == *judge->measure({1}));
  REQUIRE(knowing->accept({1}, AcceptanceChain::kMain).isOk());
  CHECK(knowing->acceptance({1}).upperBound == judge->acceptance({1}).upperBound);
  // The reference executes the probe's windows alone, the candidate all.
  CHECK(knowing->windowsEvaluated() == 4 + 24 + 24);
  CHECK(judge->windowsEvaluated() ==
        (4 + 20 + 24) + 24 + 24 + 24); // It answered once from the log.
}

TEST_CASE("a test passes if its bound is at most the target") {
  double bound = 0;
  for (double factor : {0.0, 1.0, 0.999}) {
    Fixture fixture;
    fixture.options.target.mean = bound * factor;
    auto judge = fixture.judge();
    auto result = judge->accept({1}, AcceptanceChain::kMain);
    REQUIRE(result.isOk());
    CHECK(*result == (factor == 1 ? TestResult::kPassed : TestResult::kFailed));
    bound = judge->acceptance({1}).upperBound;
  }
}

TEST_CASE("a test on a quantile passes if it has enough units and their bound is within") {
  // 24 windows: 0.8^24 = 0.5%, 0.9^24 = 8%.
  double bound = 0;
  for (double factor : {0.0, 1.0, 0.999}) {
    Fixture fixture;
    fixture.options.target = {{}, QuantileLoss{0.8, std::max(bound * factor, 1e-9)}};
    auto judge = fixture.judge();
    auto result = judge->accept({1}, AcceptanceChain::kMain);
    REQUIRE(result.isOk());
    REQUIRE(judge->acceptance({1}).quantileBound);
    bound = *judge->acceptance({1}).quantileBound;
    CHECK(*result == (factor == 1 ? TestResult::kPassed : TestResult::kFailed));
  }
  Fixture fixture;
  fixture.options.target = {{}, QuantileLoss{0.9, 100}};
  auto judge = fixture.judge();
  CHECK(*judge->accept({1}, AcceptanceChain::kMain) == TestResult::kFailed);
  CHECK_FALSE(judge->acceptance({1}).quantileBound);
}

TEST_CASE("any number of threads measures the same, bit for bit") {
  for (LossMetric metric : {LossMetric::kPerplexity, LossMetric::kKl}) {
    Fixture alone(metric), shared(metric);
    shared.options.threads = 3;
    auto judge = alone.judge(), judgeOfThree = shared.judge();
    CHECK(*judge->probe({1}) == *judgeOfThree->probe({1}));
    CHECK(*judge->measure({1}) == *judgeOfThree->measure({1}));
    CHECK(*judge->accept({1}, AcceptanceChain::kMain) ==
          *judgeOfThree->accept({1}, AcceptanceChain::kMain));
    CHECK(judge->acceptance({1}).upperBound == judgeOfThree->acceptance({1}).upperBound);
  }
}

namespace {

/// Texts to generate, accepted on beside windows that the search measures.
struct ItemsFixture : Fixture {
  ItemsFixture() : Fixture(LossMetric::kExact) {
    std::ofstream file(directory.path("items.jsonl"));
    const char *prompts[] = {"a",   "b",   "c",    "ab",  "ba",  "abc", "cab",  "bab",
                             "aba", "cc",  "abab", "cba", "aa",  "bb",  "ca",   "ac",
                             "bc",  "cbb", "acc",  "bca", "bac", "ccc", "caca", "abc"};
    for (const char *prompt : prompts) // What is no token of the tokenizer is written as nothing.
      file << R"({"prompt": ")" << prompt << R"(", "answer": ["", "a", "b", "c", "ab"]})"
           << "\n";
    file.close();
    info.vocabularySize = test::kVocabulary;
    info.maxPositions = 64;
    EvaluationRequest request;
    request.metric = LossMetric::kExact;
    request.files = {directory.path("items.jsonl")};
    request.answers.maxTokens = 1;
    auto read = EvaluationSet::read(request, {"model", info, &tokenizer.tokenizer},
                                    [](const std::string &) {});
    REQUIRE_MESSAGE(read.isOk(), read.status().message());
    items.emplace(std::move(read).value());
    options.itemSet = &*items;
    kept.resize(items->samples());
    std::iota(kept.begin(), kept.end(), 0);
    options.items = kept;
    windows.acceptance = {};
  }

  LoadedTokenizer tokenizer = load(smallTokenizer());
  ModelInfo info;
  std::optional<EvaluationSet> items;
  std::vector<uint32_t> kept;
};

} // namespace

TEST_CASE("accepted on items, the search measures KL on its windows") {
  ItemsFixture fixture;
  auto judge = fixture.judge();
  std::vector<SampleScore> all = sideBySide(fixture, fixture.windows.rest);
  for (const SampleScore &score : sideBySide(fixture, fixture.windows.probe))
    all.push_back(score);
  auto measured = judge->measure({1});
  REQUIRE_MESSAGE(measured.isOk(), measured.status().message());
  CHECK(measured->loss == doctest::Approx(sumOf(all).kl()).epsilon(1e-12));
  CHECK(measured->predictedBound > measured->loss);
  CHECK_FALSE(measured->spread); // A divergence predicts no loss of answers.
}

TEST_CASE("an acceptance on items scores every item, with KL, and with the least bound of as many "
          "items") {
  for (unsigned threads : {1u, 3u}) {
    ItemsFixture fixture;
    fixture.options.threads = threads;
    auto judge = fixture.judge();
    const uint64_t before = judge->windowsEvaluated();
    auto accepted = judge->accept({1}, AcceptanceChain::kMain);
    REQUIRE_MESSAGE(accepted.isOk(), accepted.status().message());
    CHECK(judge->windowsEvaluated() == before + 48);
    const AcceptanceScores &found = judge->acceptance({1});
    REQUIRE(found.samples.size() == 24);
    const SampleScore sum = sumOf(found.samples);
    REQUIRE(sum.items == 24);
    REQUIRE(sum.referencePoints > 0);
    CHECK(found.loss == *lossOf(sum, LossMetric::kExact));
    CHECK(found.upperBound >= leastBound(found.samples, found.confidence));
    CHECK(sum.kl() > 0);
    // Nothing is lost, but so few items cannot prove it.
    auto itself = judge->accept({0}, AcceptanceChain::kMain);
    REQUIRE(itself.isOk());
    CHECK(*itself == TestResult::kOutOfReach);
    CHECK(judge->acceptance({0}).loss == 0);
    CHECK(judge->acceptance({0}).upperBound >= leastBound(found.samples, found.confidence));
  }
}

TEST_CASE("items that are left out are not scored") {
  ItemsFixture all, some;
  some.kept = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11};
  some.options.items = some.kept;
  auto judgeOfAll = all.judge(), judge = some.judge();
  REQUIRE(judgeOfAll->accept({1}, AcceptanceChain::kMain).isOk());
  REQUIRE(judge->accept({1}, AcceptanceChain::kMain).isOk());
  const std::vector<SampleScore> &expected = judgeOfAll->acceptance({1}).samples;
  const std::vector<SampleScore> &scores = judge->acceptance({1}).samples;
  REQUIRE(scores.size() == 10);
  for (size_t i = 0; i < 10; ++i)
    CHECK(scores[i].klNats == expected[some.kept[i]].klNats);
}

TEST_CASE("repeated measurements are answered from the log, in this run and a later one") {
  Fixture fixture;
  Result<double> probe = 0.0;
  Result<Measurement> measured = Measurement();
  uint64_t executed = 0;
  {
    auto judge = fixture.judge();
    probe = judge->probe({1});
    measured = judge->measure({1});
    REQUIRE(probe.isOk());
    REQUIRE(measured.isOk());
    CHECK(fixture.artifacts == 2);
    CHECK(*judge->measure({1}) == *measured);
    CHECK(fixture.artifacts == 2);
    CHECK(judge->measure({0}).isOk());
    CHECK(fixture.artifacts == 3);
    executed = judge->windowsEvaluated();
  }
  auto judge = fixture.judge();
  CHECK(*judge->probe({1}) == *probe);
  CHECK(*judge->measure({1}) == *measured);
  CHECK(judge->measure({1}).isOk());
  CHECK(judge->measure({0}).isOk());
  CHECK(fixture.artifacts == 3);
  CHECK(judge->windowsEvaluated() == executed);
}

TEST_CASE("what the log answers is reported as known, not as windows that were evaluated") {
  Fixture fixture;
  uint64_t evaluated = 0, known = 0;
  fixture.options.onWindows = [&](uint64_t windows) { evaluated = std::max(evaluated, windows); };
  fixture.options.onKnown = [&](SearchPass, uint64_t windows) { known += windows; };
  {
    auto judge = fixture.judge();
    REQUIRE(judge->probe({1}).isOk());
    REQUIRE(judge->measure({1}).isOk());
    CHECK(known == 0);
  }
  auto judge = fixture.judge();
  evaluated = 0;
  REQUIRE(judge->probe({1}).isOk());
  CHECK(known == 4);
  REQUIRE(judge->measure({1}).isOk());
  CHECK(known == 4 + 24);
  CHECK(evaluated == 0);
}

TEST_CASE("what a log of another level answers has the bounds of this level") {
  Fixture fixture, other;
  REQUIRE(fixture.judge()->measure({1}).isOk());
  fixture.options.levels = other.options.levels = {0.0002, 0.0001};
  auto resumed = fixture.judge()->measure({1}), anew = other.judge()->measure({1});
  REQUIRE_MESSAGE(resumed.isOk(), resumed.status().message());
  CHECK(*resumed == *anew);
  CHECK(fixture.artifacts == 1);
}

TEST_CASE("fewer than 20 windows order by their divergence without a bound, also from the log") {
  Fixture fixture;
  CHECK(fixture.judge()->measure({1})->hasBound);
  RandomStream random(4);
  fixture.windows.rest = randomWindows(random, {8, 7}); // 19 with the probe's 4.
  ++fixture.options.fingerprint;
  std::vector<SampleScore> all = sideBySide(fixture, fixture.windows.rest);
  for (const SampleScore &score : sideBySide(fixture, fixture.windows.probe))
    all.push_back(score);
  const SampleScore sum = sumOf(all);
  for (int run = 0; run < 2; ++run) {
    auto measured = fixture.judge()->measure({1});
    REQUIRE_MESSAGE(measured.isOk(), measured.status().message());
    CHECK_FALSE(measured->hasBound);
    CHECK_FALSE(measured->spread);
    CHECK(measured->predictedBound == doctest::Approx(sum.kl()).epsilon(1e-12));
    CHECK(measured->loss == doctest::Approx(*lossOf(sum, LossMetric::kPerplexity)).epsilon(1e-12));
  }
  CHECK(fixture.artifacts == 2);
}

TEST_CASE("another fingerprint measures anew") {
  Fixture fixture;
  REQUIRE(fixture.judge()->probe({1}).isOk());
  ++fixture.options.fingerprint;
  REQUIRE(fixture.judge()->probe({1}).isOk());
  CHECK(fixture.artifacts == 2);
}

TEST_CASE("no candidate's file remains") {
  Fixture fixture;
  auto judge = fixture.judge();
  REQUIRE(judge->probe({1}).isOk());
  REQUIRE(judge->measure({1}).isOk());
  REQUIRE(judge->accept({1}, AcceptanceChain::kMain).isOk());
  CHECK_FALSE(std::filesystem::exists(fixture.options.directory + "/candidate.moe"));
}

TEST_CASE("a stop ends a measurement, which the next run makes again") {
  Fixture fixture;
  std::atomic<bool> stop = false;
  fixture.options.stop = &stop;
  auto judge = fixture.judge();
  stop = true;
  CHECK(judge->measure({1}).status().code() == StatusCode::kInterrupted);
  CHECK(judge->accept({1}, AcceptanceChain::kMain).status().code() == StatusCode::kInterrupted);
  stop = false;
  CHECK(fixture.judge()->measure({1}).isOk());
  CHECK(fixture.artifacts == 3);
}
