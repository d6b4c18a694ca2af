#include "compiler/plan/WidthProbes.h"

#include "compiler/plan/WidthSolvers.h"

#include <algorithm>

using namespace moert;

namespace moec {

// What probes cannot tell from nothing, so that no option is free.
constexpr double kLeastNats = 1e-7;

namespace {

class WidthProbes {
public:
  WidthProbes(WidthTrials &measuring, double probeBits)
      : trials(measuring), input(measuring.input()), bits(probeBits),
        widest(input.problem.items.size(), 0), estimates(input.problem) {}

  Result<WidthProblem> run();

private:
  Status tooFewMeasurements() const {
    return invalidInput(input.maxMeasurements, " measurements do not reach to probe all widths");
  }
  bool hasChoice(uint32_t group) const;
  Status probeGroup(uint32_t group);
  Status probeOptions(size_t item);
  void scaleGroup(uint32_t group, const WidthAssignment &probed, double nats);

  WidthTrials &trials;
  const WidthSearchInput &input;
  double bits;
  double base = 0; // The divergence of the most bits everywhere.
  WidthAssignment widest;
  WidthProblem estimates;
};

} // namespace

// What a squared error costs in a group, from what its items lose together as they were probed.
void WidthProbes::scaleGroup(uint32_t group, const WidthAssignment &probed, double nats) {
  double error = 0;
  for (size_t i = 0; i < probed.size(); ++i)
    if (input.groups[i] == group) {
      const std::vector<WidthOption> &options = input.problem.items[i].options;
      error += std::max(options[probed[i]].loss - options[0].loss, 0.0);
    }
  double natsPerError = error > 0 ? nats / error : 0;
  for (size_t i = 0; i < probed.size(); ++i) {
    if (input.groups[i] != group)
      continue;
    const std::vector<WidthOption> &errors = input.problem.items[i].options;
    std::vector<WidthOption> &options = estimates.items[i].options;
    for (size_t o = 0; o < errors.size(); ++o)
      options[o].loss = natsPerError * std::max(errors[o].loss - errors[0].loss, 0.0);
  }
}

Status WidthProbes::probeOptions(size_t item) {
  std::vector<WidthOption> &options = estimates.items[item].options;
  options[0].loss = 0;
  for (uint32_t o = 1; o < options.size(); ++o) {
    if (!trials.canMeasure())
      return tooFewMeasurements();
    WidthAssignment assignment = widest;
    assignment[item] = o;
    MOERT_ASSIGN_OR_RETURN(double nats, trials.probe(assignment));
    options[o].loss = std::max({nats - base, options[o - 1].loss, kLeastNats});
  }
  return {};
}

bool WidthProbes::hasChoice(uint32_t group) const {
  for (size_t i = 0; i < input.groups.size(); ++i)
    if (input.groups[i] == group && input.problem.items[i].options.size() > 1)
      return true;
  return false;
}

Status WidthProbes::probeGroup(uint32_t group) {
  auto first = std::find(input.groups.begin(), input.groups.end(), group);
  if (first == input.groups.end())
    return {};
  const auto item = size_t(first - input.groups.begin());
  if (input.isProbedDirectly[item]) {
    if (input.solver == SolverChoice::kEdgeMoe)
      return {}; // Not this solver's to choose.
    return probeOptions(item);
  }
  if (!hasChoice(group)) {
    scaleGroup(group, widest, 0);
    return {};
  }
  if (!trials.canMeasure())
    return tooFewMeasurements();
  WidthAssignment assignment = widest;
  const WidthAssignment probed = uniformAssignment(input.problem, bits);
  for (size_t i = 0; i < assignment.size(); ++i) {
    // The most bits would tell nothing.
    const uint32_t least = input.problem.items[i].options.size() > 1 ? 1 : 0;
    if (input.groups[i] == group)
      assignment[i] = std::max(probed[i], least);
  }
  MOERT_ASSIGN_OR_RETURN(double nats, trials.probe(assignment));
  scaleGroup(group, assignment, std::max(nats - base, kLeastNats));
  return {};
}

Result<WidthProblem> WidthProbes::run() {
  if (!trials.canMeasure())
    return tooFewMeasurements();
  MOERT_ASSIGN_OR_RETURN(base, trials.probe(widest));
  for (uint32_t group = 0; group < input.groups.size(); ++group)
    MOERT_RETURN_IF_ERROR(probeGroup(group));
  return std::move(estimates);
}

Result<WidthProblem> probeGroups(WidthTrials &trials, double bits) {
  return WidthProbes(trials, bits).run();
}

} // namespace moec
