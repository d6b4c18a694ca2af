#include "compiler/plan/WidthTimes.h"

#include "compiler/plan/TimedReplay.h"
#include "compiler/plan/WidthSolvers.h"
#include "tests/unit/plan/PlanFixture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace moec;
using moert::Result;
using moert::StatusCode;

namespace {

constexpr uint32_t kWidths[] = {8, 4, 2};
constexpr uint64_t kBytesPerBit = 4096;

/// Experts of a trace in three widths; the losses are the test's.
struct TracedExperts : WidthPlanning {
  PlanFixture fixture;
  WidthProblem problem;
  std::vector<TimedItem> timed;
  std::vector<double> computeNs = {80, 40, 20};

  TracedExperts(RoutingTrace trace, uint32_t topK, uint64_t poolPages)
      : fixture(std::move(trace), topK, poolPages, 8 * kBytesPerBit) {
    for (uint32_t l = 0; l < fixture.recordBytes.size(); ++l)
      for (uint32_t e = 0; e < fixture.recordBytes[l].size(); ++e) {
        WidthItem &item = problem.items.emplace_back();
        TimedItem &time = timed.emplace_back();
        time.expert = TimedItem::Place{l, e};
        for (size_t o = 0; o < std::size(kWidths); ++o) {
          const uint64_t bytes = kWidths[o] * kBytesPerBit;
          item.options.push_back(
              {double(kWidths[o]), double(bytes), std::pow(4.0, -double(kWidths[o]))});
          time.options.push_back({bytes, computeNs[o], 5});
        }
        item.options.front().loss = 0;
      }
  }

  void scaleLoss(size_t item, double factor) {
    for (WidthOption &option : problem.items[item].options)
      option.loss *= factor;
  }

  Result<bool> begin(const WidthAssignment &) override { return true; }
  const std::vector<TimedItem> &items() const override { return timed; }
  Result<std::optional<PlanProblem>> problemOf(const WidthAssignment &assignment) override {
    size_t item = 0;
    for (std::vector<uint64_t> &layer : fixture.recordBytes)
      for (uint64_t &bytes : layer)
        bytes = kWidths[assignment[item++]] * kBytesPerBit;
    return std::optional(fixture.problem());
  }
};

constexpr uint16_t kHot = 3, kCold = 24;

/// Three experts that every token wants, and many that take turns, so that none of these is in the
/// cache when its turn comes.
TracedExperts hotAndCold() {
  std::vector<uint16_t> chosen;
  for (uint16_t token = 0; token < 4 * kCold; ++token)
    chosen.insert(chosen.end(), {0, 1, 2, uint16_t(kHot + token % kCold)});
  return TracedExperts(tokensOf(kHot + kCold, kHot + 1, chosen), kHot + 1, 4 * 8);
}

TracedExperts randomExperts(std::mt19937 &random) {
  std::vector<TraceStep> steps(120);
  TracedExperts experts(randomTrace(random, 2, 24, 3, steps), 3, 40 + random() % 24);
  for (size_t i = 0; i < experts.problem.items.size(); ++i)
    experts.scaleLoss(i, std::exp(double(random() % 400) / 100));
  double most = 0;
  for (const WidthItem &item : experts.problem.items)
    most += item.options.back().loss;
  experts.problem.lossLimit = most * double(1 + random() % 9) / 10;
  return experts;
}

} // namespace

TEST_CASE("of equal losses, bytes cut what comes first and seconds what is read") {
  TracedExperts experts = hotAndCold();
  // All at 4 bits, and half of the cold ones, or as many others, at 2.
  const std::vector<WidthOption> &options = experts.problem.items[0].options;
  const double half = kCold / 2;
  experts.problem.lossLimit = 1.0001 * ((kHot + half) * options[1].loss + half * options[2].loss);
  const WidthAssignment byBytes = solveKnapsack(experts.problem).value();
  ReplayedWidths times(experts, Preset::kLru, 1);
  REQUIRE(*times.begin(byBytes));
  const WidthAssignment bySeconds = solveInSeconds(experts.problem, times).value();
  CHECK(verify(experts.problem, bySeconds).isOk());
  const auto atFewest = [](const WidthAssignment &assignment, size_t begin, size_t end) {
    return std::count(assignment.begin() + ptrdiff_t(begin), assignment.begin() + ptrdiff_t(end),
                      2u);
  };
  // All cost the same in bytes, so that their order decides.
  CHECK(atFewest(byBytes, 0, kHot) == kHot);
  CHECK(atFewest(bySeconds, 0, kHot) == 0);
  CHECK(atFewest(bySeconds, kHot, kHot + kCold) >= kCold / 2);
  CHECK(*times.tokenNs(bySeconds) < 0.95 * *times.tokenNs(byBytes));
}

TEST_CASE("widths by seconds are never slower than those by bytes, within the same loss") {
  std::mt19937 random(7);
  size_t faster = 0;
  for (int round = 0; round < 12; ++round) {
    TracedExperts experts = randomExperts(random);
    const WidthAssignment byBytes = solveKnapsack(experts.problem).value();
    ReplayedWidths times(experts, round % 4 == 0 ? Preset::kAuto : Preset::kLru, 2);
    REQUIRE(*times.begin(byBytes));
    const WidthAssignment bySeconds = solveInSeconds(experts.problem, times).value();
    CHECK(verify(experts.problem, bySeconds).isOk());
    const double bytesNs = *times.tokenNs(byBytes), secondsNs = *times.tokenNs(bySeconds);
    CHECK(secondsNs <= bytesNs);
    faster += secondsNs < 0.98 * bytesNs;
  }
  CHECK(faster >= 4); // Otherwise the weights say nothing.
}

TEST_CASE("an expert's reads are the replay's misses, and it is held whenever it is not read") {
  std::mt19937 random(3);
  TracedExperts experts = randomExperts(random);
  const PlanProblem problem = experts.fixture.problem();
  const PlanRule rule{Preset::kLru, {}};
  const MarginalTimes times = marginalTimes(problem, rule).value();
  const TimedResult replayed = replayInTime(problem, settingsBy(rule, problem)).value();
  double reads = 0, wanted = 0;
  for (const std::vector<ExpertUse> &layer : times.experts)
    for (const ExpertUse &use : layer) {
      reads += use.reads;
      wanted += use.wanted;
      CHECK(use.held <= 1);
      CHECK(use.reads <= use.wanted);
      CHECK(use.wanted - use.reads <= use.held + 1e-9);
    }
  const double tokens = double(replayed.tokenNs.size());
  CHECK(reads * tokens == doctest::Approx(double(replayed.decode.cache.misses)));
  CHECK(wanted == doctest::Approx(2 * 3));
  CHECK(times.pageNs > 0);
  CHECK(times.readingFraction > 0.9); // The disk is far slower than computing.
  CHECK(times.readingFraction < 1.1);
}

TEST_CASE("where everything stays in memory bytes cost computing alone") {
  std::mt19937 random(5);
  TracedExperts experts = randomExperts(random);
  experts.fixture.poolPages = 2 * 24 * 8 + 3 * 8;
  ReplayedWidths times(experts, Preset::kLru, 1);
  const WidthAssignment widest(experts.problem.items.size(), 0);
  REQUIRE(*times.begin(widest));
  const PlanProblem problem = experts.fixture.problem();
  const MarginalTimes margins = marginalTimes(problem, {Preset::kLru, {}}).value();
  CHECK(margins.computingFraction > 0.85); // All of it but beside the first reads.
  const auto ns = times.optionNs(widest).value();
  for (size_t i = 0; i < ns.size(); ++i) {
    const auto [layer, expert] = *experts.timed[i].expert;
    const ExpertUse &use = margins.experts[layer][expert];
    if (use.reads == 0)
      CHECK(ns[i][0] ==
            doctest::Approx(margins.computingFraction * use.wanted * experts.computeNs[0]));
    CHECK(ns[i][0] >= ns[i][2]);
  }
}

TEST_CASE("times that are stopped say so, in a search for a plan too") {
  TracedExperts experts = hotAndCold();
  const WidthAssignment widest(experts.problem.items.size(), 0);
  std::atomic<bool> stop = false;
  ReplayedWidths times(experts, Preset::kAuto, 1, &stop);
  REQUIRE(times.begin(widest).isOk());
  CHECK(times.tokenNs(widest).isOk());
  stop = true;
  CHECK(times.begin(widest).status().code() == StatusCode::kInterrupted);
  CHECK(times.tokenNs(widest).status().code() == StatusCode::kInterrupted);
  CHECK(times.optionNs(widest).status().code() == StatusCode::kInterrupted);
  CHECK(solveInSeconds(experts.problem, times).status().code() == StatusCode::kInterrupted);
}

TEST_CASE("times refuse a trace that decodes nothing") {
  std::vector<TraceStep> prompt = {{.tokens = 16}};
  std::mt19937 random(1);
  TracedExperts experts(randomTrace(random, 1, 8, 2, prompt), 2, 64);
  const moert::Status status =
      marginalTimes(experts.fixture.problem(), {Preset::kLru, {}}).status();
  CHECK(status.message() == "the trace has no decoded tokens");
}
