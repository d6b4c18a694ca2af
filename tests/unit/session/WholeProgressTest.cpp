#include "compiler/session/WholeProgress.h"

#include <doctest/doctest.h>

using namespace moec;

constexpr uint64_t kSecond = 1'000'000'000;
static uint64_t fakeNow;

namespace {

struct Shown final : Progress {
  void begin(std::string_view name, uint64_t, uint64_t) override { step = name; }
  void advanceTo(uint64_t) override {}
  void expectEnd(double seconds) override { left = seconds; }
  void end() override { ++ended; }

  std::string step;
  double left = -1;
  int ended = 0;
};

struct Fixture {
  Shown shown;
  WholeProgress progress{&shown,
                         {{"reading", 10}, {"searching", std::nullopt}, {"writing", 5}},
                         [] { return fakeNow; }};
};

} // namespace

TEST_CASE_FIXTURE(Fixture, "steps are numbered, and others pass unnumbered") {
  progress.begin("reading", 100, 0);
  CHECK(shown.step == "step 1 of 3, reading");
  progress.begin("something else", 100, 0);
  CHECK(shown.step == "something else");
  progress.begin("writing", 100, 0); // An earlier run has searched.
  CHECK(shown.step == "step 3 of 3, writing");
  progress.end();
  CHECK(shown.ended == 1);
}

TEST_CASE_FIXTURE(Fixture, "there is no remaining time until that of every step is known") {
  fakeNow = 0;
  progress.begin("reading", 100, 0);
  progress.advanceTo(50);
  CHECK(shown.left == -1);
  CHECK_FALSE(progress.secondsLeft());
  progress.expect("searching", 60);
  CHECK(*progress.secondsLeft() == 65);
  fakeNow = 5 * kSecond;
  progress.advanceTo(50);
  CHECK(shown.left == doctest::Approx(5 + 60 + 5)); // As planned.
}

TEST_CASE_FIXTURE(Fixture, "a step's own rate replaces its plan until a quarter is done") {
  progress.expect("searching", 0);
  fakeNow = 0;
  progress.begin("reading", 1000, 0);
  fakeNow = 10 * kSecond; // Ten times as slow as planned, but for a tenth of a pace's seconds.
  progress.advanceTo(100);
  const double pace = 0.1 * 10 + 0.9;
  CHECK(shown.left == doctest::Approx(0.4 * 90 + pace * (0.6 * 9 + 5)));
  fakeNow = 25 * kSecond;
  progress.advanceTo(250);
  CHECK(shown.left == doctest::Approx(75 + (0.25 * 10 + 0.75) * 5));
}

TEST_CASE_FIXTURE(Fixture, "later steps are expected at the pace of the earlier ones") {
  progress.expect("searching", 100);
  fakeNow = 0;
  progress.begin("reading", 100, 0);
  fakeNow = 30 * kSecond; // Three times as slow as planned.
  progress.advanceTo(100);
  CHECK(shown.left == doctest::Approx(3 * (100 + 5)));
  progress.begin("searching", 100, 0);
  progress.expectStepEnd(42); // By its own means, which have their own pace.
  fakeNow = 31 * kSecond;
  progress.advanceTo(1);
  CHECK(shown.left == doctest::Approx(42 + 3 * 5));
}

TEST_CASE_FIXTURE(Fixture, "what an earlier run did is not counted as speed") {
  progress.expect("searching", 0);
  fakeNow = 0;
  progress.begin("reading", 100, 0);
  fakeNow = 2 * kSecond;
  progress.restoreTo(60);
  fakeNow = 12 * kSecond;
  progress.advanceTo(80); // Half of what was left, in 10 s: a fifth of the step, planned for 2 s.
  const double pace = 0.2 * 5 + 0.8;
  CHECK(shown.left == doctest::Approx(10 + pace * 5));
}

TEST_CASE_FIXTURE(Fixture, "who runs a step may know better what is left of it") {
  progress.expect("searching", 100);
  fakeNow = 0;
  progress.begin("searching", 100, 0);
  progress.expectStepEnd(42);
  progress.advanceTo(1);
  CHECK(shown.left == doctest::Approx(42 + 5));
}

TEST_CASE("without a progress to show, nothing is shown") {
  WholeProgress progress(nullptr, {{"reading", 10}});
  progress.begin("reading", 100, 0);
  progress.advanceTo(100);
  progress.end();
  CHECK(*progress.secondsLeft() == 0);
}

TEST_CASE("steps that may not come count by their chance until they are certain") {
  Shown shown;
  fakeNow = 0;
  WholeProgress progress{
      &shown, {{"reading", 10}, {"writing", 5}, {"reading", 10, 0.5}}, [] { return fakeNow; }};
  CHECK(*progress.secondsLeft() == 20);
  CHECK(*progress.secondsLeft(1) == 25);
  progress.begin("reading", 100, 0);
  CHECK(shown.step == "step 1 of 2, reading");
  progress.begin("writing", 100, 0);
  progress.foresee(0.2);
  CHECK(*progress.secondsLeft() == 2);
  progress.foresee(1);
  CHECK(*progress.secondsLeft() == 10);
  progress.begin("reading", 100, 0);
  CHECK(shown.step == "step 3 of 3, reading");
}
