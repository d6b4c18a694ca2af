// Which windows of a search count as work of this process, and what is left of it.
#include "compiler/accuracy/SearchProgress.h"

#include <doctest/doctest.h>

#include <utility>

using namespace moec;

constexpr uint64_t kSecond = 1'000'000'000;
static uint64_t fakeNow;

namespace {

struct Counted final : Progress {
  void begin(std::string_view, uint64_t total, uint64_t) override { expected = total; }
  void advanceTo(uint64_t now) override { done += now - std::exchange(last, now); }
  void restoreTo(uint64_t now) override { restored += now - std::exchange(last, now); }
  void expectStepEnd(double seconds) override { left = seconds; }
  void end() override { hasEnded = true; }

  uint64_t expected = 0, done = 0, restored = 0, last = 0;
  double left = -1;
  bool hasEnded = false;
};

} // namespace

static SearchWork workOf(uint64_t candidates, uint64_t probes, uint64_t tests) {
  SearchWork work;
  work.of(SearchPass::kReference) = {1, 10};
  work.of(SearchPass::kCandidate) = {candidates, 10};
  work.of(SearchPass::kProbe) = {probes, 4};
  work.of(SearchPass::kAcceptance) = {tests, 20};
  return work;
}

TEST_CASE("passes of an earlier run are restored, between passes of this one") {
  Counted counted;
  {
    SearchProgress progress(&counted, "windows", workOf(5, 5, 1));
    CHECK(counted.expected == 10 + 50 + 20 + 20);
    progress.advanceTo(4);
    progress.restorePass(SearchPass::kProbe, 24);
    progress.restorePass(SearchPass::kProbe, 24);
    progress.beginPass(SearchPass::kCandidate);
    progress.advanceTo(3);
    CHECK(counted.done == 4 + 3);
    CHECK(counted.restored == 48);
    CHECK(counted.last == 55);
    progress.restorePass(SearchPass::kCandidate, 90); // More than was expected.
    CHECK(counted.last == 100);
  }
  CHECK(counted.hasEnded);
}

TEST_CASE("each kind of pass is expected to take its own time") {
  Counted counted;
  fakeNow = 0;
  SearchProgress progress(&counted, "windows", workOf(3, 5, 2), [] { return fakeNow; });
  progress.beginPass(SearchPass::kReference);
  fakeNow = 10 * kSecond; // A window a second.
  progress.advanceTo(10);
  CHECK(counted.left == doctest::Approx(kCandidateCost * 50 + (1 + kCandidateCost) * 40));
  progress.beginPass(SearchPass::kCandidate);
  fakeNow += 2 * kSecond; // Five windows a second, with making the artifact.
  progress.advanceTo(10);
  // What is expected counts as half a pass.
  const double candidate = (2 + kCandidateCost * 5) / 15;
  CHECK(counted.left == doctest::Approx(candidate * 40 + (1 + candidate) * 40));
  progress.beginPass(SearchPass::kAcceptance); // Probes are over; a candidate goes before a test.
  fakeNow += 4 * kSecond;
  progress.advanceTo(10);
  const double both = (4 + (1 + candidate) * 10) / 20;
  CHECK(counted.left == doctest::Approx(candidate * 10 + both * 30));
}

TEST_CASE("seconds of a search follow from those of the reference's windows") {
  CHECK(secondsOf(workOf(3, 5, 2), 2) ==
        doctest::Approx(2 * (10 + kCandidateCost * 50 + (1 + kCandidateCost) * 40)));
}
