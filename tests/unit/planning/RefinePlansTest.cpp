#include "compiler/planning/RefinePlans.h"

#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/planning/TinyPlanning.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

namespace {

/// Refines the tiny artifact, with one plan per preset name, and records the progress.
class Refining : public Progress {
public:
  explicit Refining(const std::vector<std::string> &presets) : artifact(tinyArtifact()) {
    const Plan plain = artifact.plans.front();
    artifact.plans.clear();
    for (const std::string &preset : presets) {
      Plan &plan = artifact.plans.emplace_back(plain);
      plan.name = plan.preset = preset;
    }
  }

  Status run(const std::atomic<bool> *stop = nullptr) {
    const PlanTrace trace = smallTrace();
    const DeviceProfile device = plainDevice();
    return refinePlans(artifact, {&trace, {}, &device}, {this, stop, {}});
  }

  void begin(std::string_view, uint64_t totalBytes, uint64_t) override { total = totalBytes; }
  void advanceTo(uint64_t done) override { told.push_back(done); }
  void end() override { hasEnded = true; }

  Artifact artifact;
  uint64_t total = 0;
  std::vector<uint64_t> told;
  bool hasEnded = false;
};

} // namespace

TEST_CASE("progress grows within a plan that is searched, and every plan counts the same") {
  Refining refining({"auto", "lru"});
  REQUIRE(refining.run().message() == "");
  REQUIRE(refining.told.size() > 4);
  CHECK(std::is_sorted(refining.told.begin(), refining.told.end()));
  CHECK(refining.told.front() > 0);
  CHECK(refining.told.front() < refining.total / 2);
  CHECK(refining.told[refining.told.size() - 2] == refining.total / 2);
  CHECK(refining.told.back() == refining.total);
  CHECK(refining.hasEnded);
}

TEST_CASE("the reasons for the widths are kept when those of an earlier plan are replaced") {
  for (const char *preset : {"auto", "lru"}) {
    Refining refining({preset});
    std::vector<PlanReason> &reasons = refining.artifact.plans.front().reasons;
    reasons = {{"widths", "least time", "10 ms a token", Origin::kMeasured},
               {"eviction", "from before", "nobody knows", Origin::kMeasured}};
    REQUIRE(refining.run().message() == "");
    REQUIRE(reasons.size() > 1);
    CHECK(reasons.front().decision == "widths");
    CHECK(reasons.front().reason == "10 ms a token");
    CHECK(std::ranges::none_of(reasons,
                               [](const PlanReason &made) { return made.value == "from before"; }));
  }
}

TEST_CASE("planning that is interrupted reports only that") {
  const std::atomic<bool> stop = true;
  Refining refining({"auto"});
  const Status status = refining.run(&stop);
  CHECK(status.code() == StatusCode::kInterrupted);
  CHECK(status.message() == "interrupted");
}
