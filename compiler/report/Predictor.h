// Predicts a run's speed with something changed: measured, times the ratio of simulated times.
#pragma once

#include "compiler/report/RunSimulation.h"
#include "compiler/report/WhatIf.h"
#include "compiler/session/Session.h"

#include <span>
#include <vector>

namespace moec {

/// Borrows its arguments.
class Predictor {
public:
  Predictor(const RunSimulation &of, const Session &user)
      : simulation(of), session(user), measured(measuredTokensPerSecond(of.run())) {}

  /// A change, with other settings than the run's if there are some.
  struct Asked {
    RunSimulation::Change change;
    const PlanSettings *settings = nullptr;
  };

  Predicted anchored(const Simulated &changed, const Simulated &base) const;
  moert::Result<Predicted> predict(const RunSimulation::Change &change) const;
  /// Each change alone.
  moert::Result<std::vector<Simulated>> simulateAll(std::span<const Asked> all) const;
  moert::Result<std::vector<Predicted>>
  predictAll(std::span<const RunSimulation::Change> changes) const;

private:
  const RunSimulation &simulation;
  const Session &session;
  double measured;
};

} // namespace moec
