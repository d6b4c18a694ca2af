// The configurations that an accuracy model of virtual experts is fitted to.
#include "compiler/planning/VirtualExpertProfile.h"

#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/planning/TinyPlanning.h"

#include <doctest/doctest.h>
#include <set>

using namespace moec;
using namespace moert;

namespace {

struct TinyProfile {
  TinyProfile() {
    facts = factsOf(tinyArtifact());
    for (const CacheShape::Layer &layer : facts.footprint.cache.layers)
      budget.allotment.quotaPages.push_back(static_cast<uint32_t>(2 * layer.recordPages));
    budget.allotment.stagingPages =
        static_cast<uint32_t>(4 * smallestPoolPages(facts.footprint.cache));
    budget.preset = Preset::kSwapMoe;
    budget.contextTokens = 64;
    budget.prefillChunk = 16;
  }
  std::vector<Plan> configurations(uint32_t count, uint64_t seed) const {
    const PlanProblem inputs = {.recordBytes = facts.recordBytes,
                                .topK = facts.topK,
                                .pageBytes = facts.footprint.pageBytes};
    return randomConfigurations(facts, inputs, {&budget, 1}, count, seed);
  }

  ModelFacts facts;
  BudgetPlan budget;
};

} // namespace

TEST_CASE("configurations are plans of swapmoe with at least one and at most all experts") {
  const TinyProfile profile;
  const std::vector<Plan> plans = profile.configurations(40, 0);
  REQUIRE(plans.size() == 40);
  std::set<std::vector<uint32_t>> different;
  for (const Plan &plan : plans) {
    CHECK(plan.miss.action == MissAction::kMask);
    CHECK(plan.rules.eviction == EvictionPolicy::kImportance);
    CHECK(plan.rules.exchange.exchanges());
    REQUIRE(plan.quotaPages.size() == profile.facts.recordBytes.size());
    for (size_t l = 0; l < plan.quotaPages.size(); ++l) {
      const CacheShape::Layer &layer = profile.facts.footprint.cache.layers[l];
      CHECK(plan.quotaPages[l] >= layer.recordPages);
      CHECK(plan.quotaPages[l] <= layer.allPages);
      CHECK(!plan.start[l].experts.empty());
    }
    different.insert(plan.quotaPages);
  }
  CHECK(different.size() >= 4);
}

TEST_CASE("the same seed gives the same configurations") {
  const TinyProfile profile;
  CHECK(profile.configurations(10, 3) == profile.configurations(10, 3));
  CHECK(profile.configurations(10, 3) != profile.configurations(10, 4));
}
