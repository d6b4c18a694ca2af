#include "compiler/report/Predictor.h"

#include "compiler/plan/PlanSearch.h"

namespace moec {

using moert::Result;

Predicted Predictor::anchored(const Simulated &changed, const Simulated &base) const {
  const double ratio = changed.tokenNs > 0 ? base.tokenNs / changed.tokenNs : 1;
  return {measured * ratio, ratio - 1, changed};
}

Result<Predicted> Predictor::predict(const RunSimulation::Change &change) const {
  MOERT_ASSIGN_OR_RETURN(const Simulated changed, simulation.simulate(change));
  return anchored(changed, simulation.base());
}

Result<std::vector<Simulated>> Predictor::simulateAll(std::span<const Asked> all) const {
  return replayEach(
      all.size(),
      [&](size_t i) {
        const Asked &asked = all[i];
        return asked.settings ? simulation.simulate(asked.change, *asked.settings)
                              : simulation.simulate(asked.change);
      },
      session.stop);
}

Result<std::vector<Predicted>>
Predictor::predictAll(std::span<const RunSimulation::Change> changes) const {
  std::vector<Asked> asked;
  for (const RunSimulation::Change &change : changes)
    asked.push_back({change});
  MOERT_ASSIGN_OR_RETURN(const std::vector<Simulated> simulated, simulateAll(asked));
  std::vector<Predicted> predicted;
  for (const Simulated &each : simulated)
    predicted.push_back(anchored(each, simulation.base()));
  return predicted;
}

} // namespace moec
