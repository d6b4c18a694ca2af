// A problem with the routers' scores, for tests of plans with miss rules.
#pragma once

#include "tests/unit/plan/PlanFixture.h"

namespace moec {

/// Three layers of sixteen experts, of which four are chosen, with weights that halve from rank to
/// rank; records have two slices of half their bytes.
struct ScoredFixture : PlanFixture {
  explicit ScoredFixture(uint64_t pool)
      : PlanFixture(decodedTrace(), 4, pool, 2 * 4096), sliceEnds(3) {
    for (uint32_t layer = 0; layer < 3; ++layer) {
      sliceEnds[layer].assign(16, {4096, 2 * 4096});
      LayerScores &known = scores.emplace_back();
      known.topK = known.perToken = 4;
      for (const RoutingPass &pass : trace.passes)
        if (pass.layer == layer)
          for (uint32_t rank = 0; rank < 4; ++rank) {
            const auto expert = static_cast<uint16_t>(trace.wanted[pass.begin + rank]);
            known.chosen.push_back(expert);
            known.weights.push_back(1.0F / static_cast<float>(2 << rank));
            known.likeliest.push_back(expert);
            known.likelihoods.push_back(known.weights.back());
          }
    }
  }
  static RoutingTrace decodedTrace() {
    std::mt19937 random(7);
    return randomTrace(random, 3, 16, 4, std::vector<TraceStep>(300));
  }
  PlanProblem problem() const {
    PlanProblem known = PlanFixture::problem();
    known.sliceEnds = sliceEnds;
    known.scores = scores;
    return known;
  }

  std::vector<std::vector<std::vector<uint64_t>>> sliceEnds;
  std::vector<LayerScores> scores;
};

} // namespace moec
