#include "compiler/plan/WidthSearch.h"

#include "compiler/plan/WidthSolvers.h"

#include <algorithm>
#include <cmath>
#include <optional>

using namespace moert;

namespace moec {

// Closer than this the bytes of two assignments are the same for any use.
constexpr double kCostTolerance = 0.01;
// What probes cannot tell from nothing, so that no option is free.
constexpr double kLeastNats = 1e-7;
// A bar that was not met is raised by at least this much: a look is worth more than its bytes.
constexpr double kLeastTightening = 0.95;
// Text differs from text by no more than this; a look that says more is taken for noise.
constexpr double kMostBarShift = 4;
// What one look says of the bar for another assignment is right to within a few hundredths.
constexpr double kBarMargin = 0.97;
constexpr uint32_t kMeasurementsBeforeLooking = 3;
constexpr uint32_t kMeasurementsPerBisection = 7;

namespace {

class WidthSearch {
public:
  WidthSearch(const WidthSearchInput &given, WidthJudge &measuring)
      : input(given), judge(measuring), bar(given.target) {
    outcome.estimates = given.problem;
  }

  Result<WidthSearchOutcome> run();

private:
  bool canMeasure() const { return outcome.measurements < input.maxMeasurements; }
  bool meets(const MeasuredWidths &widths) const { return widths.measurement.upperBound <= bar; }
  double costOf(const WidthAssignment &assignment) const {
    return totalsOf(input.problem, assignment).cost;
  }
  double estimateOf(const WidthAssignment &assignment) const {
    return totalsOf(outcome.estimates, assignment).loss;
  }
  /// All items but the directly probed ones at a width.
  WidthAssignment uniform(uint32_t bits, const WidthAssignment &others) const;
  std::vector<uint32_t> uniformWidths() const;
  bool isUniform(const WidthAssignment &assignment) const;

  /// Measures, or finds what was measured before. False: no measurements are left.
  Result<bool> measure(const std::string &solver, const WidthAssignment &assignment,
                       double limit = std::numeric_limits<double>::quiet_NaN());
  const MeasuredWidths *find(const WidthAssignment &assignment) const;

  Status measureUniforms();
  Status probeGroups();
  Status probeGroup(uint32_t group, double base);
  Result<double> probe(const WidthAssignment &assignment);
  void scaleGroup(uint32_t group, uint32_t bits, double nats);
  Status bisect(uint32_t most);
  std::optional<double> nextLimit() const;
  Status challenge();
  Status challengeWithUniform(const WidthAssignment &others);
  Status challengeWithEdgeMoe(const WidthAssignment &others);
  Status bisectEdgeMoe(uint32_t most);
  Status improve(uint32_t most);
  bool mayTake(const MeasuredWidths &widths) const;
  WidthAssignment firstOthers() const;
  const MeasuredWidths *cheapest() const;
  void moveBar(const MeasuredWidths &widths, const Measurement &acceptance);
  Result<bool> look();
  Status lookAndImprove();

  const WidthSearchInput &input;
  WidthJudge &judge;
  double bar; // What upper bounds have to meet; at most the target.
  uint32_t probeBits = 0;
  WidthAssignment lastLook;
  WidthSearchOutcome outcome;
};

} // namespace

static Status checkInput(const WidthSearchInput &input) {
  MOERT_RETURN_IF_ERROR(check(input.problem));
  size_t items = input.problem.items.size();
  if (input.groups.size() != items || input.isProbedDirectly.size() != items)
    return invalidInput("groups for ", input.groups.size(), " of ", items, " items");
  if (!input.others.empty() && input.others.size() != items)
    return invalidInput("options for ", input.others.size(), " of ", items, " items");
  for (size_t i = 0; i < input.others.size(); ++i)
    if (input.others[i] >= input.problem.items[i].options.size())
      return invalidInput("option ", input.others[i], " of ", input.problem.items[i].name,
                          ", which has ", input.problem.items[i].options.size());
  if (!(input.target > 0) || !std::isfinite(input.target))
    return invalidInput("a target of ", input.target, ", expected more than 0");
  for (uint32_t group : input.groups)
    if (group >= items)
      return invalidInput("group ", group, " of ", items, " items, expected them without gaps");
  return {};
}

WidthAssignment WidthSearch::uniform(uint32_t bits, const WidthAssignment &others) const {
  WidthAssignment assignment = uniformAssignment(input.problem, bits);
  for (size_t i = 0; i < assignment.size(); ++i)
    if (input.isProbedDirectly[i])
      assignment[i] = others[i];
  return assignment;
}

std::vector<uint32_t> WidthSearch::uniformWidths() const {
  std::vector<uint32_t> widths;
  for (size_t i = 0; i < input.problem.items.size(); ++i)
    if (!input.isProbedDirectly[i])
      for (const WidthOption &option : input.problem.items[i].options)
        widths.push_back(option.bits);
  std::sort(widths.begin(), widths.end(), std::greater<>());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  return widths;
}

bool WidthSearch::isUniform(const WidthAssignment &assignment) const {
  std::vector<uint32_t> widths = uniformWidths();
  return std::any_of(widths.begin(), widths.end(),
                     [&](uint32_t bits) { return uniform(bits, assignment) == assignment; });
}

const MeasuredWidths *WidthSearch::find(const WidthAssignment &assignment) const {
  for (const MeasuredWidths &known : outcome.measured)
    if (known.assignment == assignment)
      return &known;
  return nullptr;
}

Result<bool> WidthSearch::measure(const std::string &solver, const WidthAssignment &assignment,
                                  double limit) {
  if (find(assignment))
    return true;
  if (!canMeasure())
    return false;
  ++outcome.measurements;
  MOERT_ASSIGN_OR_RETURN(Measurement measurement, judge.measure(assignment));
  // Whoever proposed it: one width for all is what it is.
  outcome.measured.push_back({isUniform(assignment) ? "uniform" : solver, assignment,
                              costOf(assignment), limit, measurement});
  return true;
}

// What uniform widths and EdgeMoE's are measured beside before anything else is known.
WidthAssignment WidthSearch::firstOthers() const {
  if (!input.others.empty())
    return input.others;
  return WidthAssignment(input.problem.items.size(), 0);
}

Status WidthSearch::measureUniforms() {
  const WidthAssignment widest = firstOthers();
  for (uint32_t bits : uniformWidths()) {
    probeBits = bits;
    WidthAssignment assignment = uniform(bits, widest);
    MOERT_RETURN_IF_ERROR(measure("uniform", assignment).status());
    if (const MeasuredWidths *known = find(assignment); !known || !meets(*known))
      break;
  }
  return {};
}

Result<double> WidthSearch::probe(const WidthAssignment &assignment) {
  ++outcome.measurements;
  return judge.probe(assignment);
}

// What a squared error costs in a group, from what its items lose together at a width.
void WidthSearch::scaleGroup(uint32_t group, uint32_t bits, double nats) {
  WidthAssignment probed = uniformAssignment(input.problem, bits);
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
    std::vector<WidthOption> &estimates = outcome.estimates.items[i].options;
    for (size_t o = 0; o < errors.size(); ++o)
      estimates[o].loss = natsPerError * std::max(errors[o].loss - errors[0].loss, 0.0);
  }
}

Status WidthSearch::probeGroup(uint32_t group, double base) {
  auto first = std::find(input.groups.begin(), input.groups.end(), group);
  if (first == input.groups.end())
    return {};
  const auto item = size_t(first - input.groups.begin());
  if (input.isProbedDirectly[item] && input.solver == SolverChoice::kEdgeMoe)
    return {}; // Not this solver's to choose.
  const WidthAssignment widest(input.problem.items.size(), 0);
  if (input.isProbedDirectly[item]) {
    std::vector<WidthOption> &options = outcome.estimates.items[item].options;
    options[0].loss = 0;
    for (uint32_t o = 1; o < options.size() && canMeasure(); ++o) {
      WidthAssignment assignment = widest;
      assignment[item] = o;
      MOERT_ASSIGN_OR_RETURN(double nats, probe(assignment));
      options[o].loss = std::max({nats - base, options[o - 1].loss, kLeastNats});
    }
    return {};
  }
  if (!canMeasure())
    return invalidInput("more groups than ", input.maxMeasurements, " measurements can probe");
  WidthAssignment assignment = widest, probed = uniformAssignment(input.problem, probeBits);
  for (size_t i = 0; i < assignment.size(); ++i)
    if (input.groups[i] == group)
      assignment[i] = probed[i];
  if (assignment == widest)
    return {}; // Nothing to choose.
  MOERT_ASSIGN_OR_RETURN(double nats, probe(assignment));
  scaleGroup(group, probeBits, std::max(nats - base, kLeastNats));
  return {};
}

Status WidthSearch::probeGroups() {
  MOERT_ASSIGN_OR_RETURN(double base, probe(WidthAssignment(input.problem.items.size(), 0)));
  for (uint32_t group = 0; group < input.groups.size(); ++group)
    MOERT_RETURN_IF_ERROR(probeGroup(group, base));
  return {};
}

namespace {

/// A limit and the bound that came of it.
struct Point {
  double limit, bound;
};

} // namespace

// On the line through two points in logarithms: losses grow as powers of each other.
static double limitAt(double bound, const Point &low, const Point &high) {
  double slope = std::log(high.bound / low.bound) / std::log(high.limit / low.limit);
  if (!(slope > 0.05) || !std::isfinite(slope))
    return std::sqrt(low.limit * high.limit);
  return low.limit * std::pow(bound / low.bound, 1 / slope);
}

// Between the largest limit that met the bar and the smallest that did not; where there is no such
// pair of the knapsack's yet, uniform widths stand in. Nothing: close enough.
std::optional<double> WidthSearch::nextLimit() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const WidthItem &item : outcome.estimates.items)
    for (const WidthOption &option : item.options)
      most += option.loss / double(item.options.size());
  Point bad{kInfinity, 0}, good{0, 0};
  const MeasuredWidths *cheapBad = nullptr, *cheapGood = nullptr;
  for (const MeasuredWidths &known : outcome.measured) {
    double limit = std::isnan(known.limit) ? estimateOf(known.assignment) : known.limit;
    if (!meets(known) && limit < bad.limit) {
      bad = {limit, known.measurement.upperBound};
      cheapBad = &known;
    }
  }
  for (const MeasuredWidths &known : outcome.measured) {
    double limit = std::isnan(known.limit) ? estimateOf(known.assignment) : known.limit;
    if (meets(known) && limit < bad.limit && limit >= good.limit) {
      good = {limit, known.measurement.upperBound};
      cheapGood = &known;
    }
  }
  bool isBracket =
      cheapBad && cheapGood && !std::isnan(cheapBad->limit) && !std::isnan(cheapGood->limit);
  if (isBracket && cheapGood->cost - cheapBad->cost <= kCostTolerance * cheapGood->cost)
    return std::nullopt;
  if (!cheapBad)
    return good.limit > 0 ? good.limit * 2 : most;
  // Without a good point above nothing: losses in proportion to the limit.
  if (good.limit <= 0 || good.bound <= 0)
    return bad.limit * std::clamp(bar / bad.bound, 0.05, 0.9);
  double limit = limitAt(bar, good, bad), ratio = bad.limit / good.limit;
  return std::clamp(limit, good.limit * std::pow(ratio, 0.1), good.limit * std::pow(ratio, 0.9));
}

Status WidthSearch::bisect(uint32_t most) {
  for (uint32_t i = 0; i < most; ++i) {
    std::optional<double> limit = nextLimit();
    if (!limit)
      return {};
    WidthProblem problem = outcome.estimates;
    problem.lossLimit = *limit;
    MOERT_ASSIGN_OR_RETURN(WidthAssignment assignment, solveKnapsack(problem));
    if (find(assignment))
      return {};
    MOERT_ASSIGN_OR_RETURN(bool isMeasured, measure("mckp", assignment, *limit));
    if (!isMeasured)
      return {};
  }
  return {};
}

bool WidthSearch::mayTake(const MeasuredWidths &widths) const {
  switch (input.solver) {
  case SolverChoice::kAuto:
    return true;
  case SolverChoice::kKnapsack:
    return widths.solver != "edgemoe";
  case SolverChoice::kEdgeMoe:
    return widths.solver != "mckp";
  case SolverChoice::kUniform:
    return widths.solver == "uniform";
  }
  return false;
}

// The cheapest that meets the bar; of about equal ones the simplest, which is uniform.
const MeasuredWidths *WidthSearch::cheapest() const {
  const MeasuredWidths *best = nullptr;
  for (const MeasuredWidths &known : outcome.measured)
    if (mayTake(known) && meets(known) && (!best || known.cost < best->cost))
      best = &known;
  for (const MeasuredWidths &known : outcome.measured)
    if (best && meets(known) && known.solver == "uniform" && best->solver != "uniform" &&
        known.cost <= best->cost * (1 + kCostTolerance))
      best = &known;
  return best;
}

Status WidthSearch::challengeWithUniform(const WidthAssignment &others) {
  for (uint32_t bits : uniformWidths()) {
    WidthAssignment assignment = uniform(bits, others);
    const MeasuredWidths *best = cheapest();
    if (!best || costOf(assignment) > best->cost * (1 + kCostTolerance))
      continue;
    MOERT_RETURN_IF_ERROR(measure("uniform", assignment).status());
    const MeasuredWidths *known = find(assignment);
    if (!known || !meets(*known))
      return {}; // Fewer bits lose more.
  }
  return {};
}

// Between the neighbouring uniform widths around the best: as many of the list at the lower one
// that the bytes are those of the best, and then more for as long as the bar is met.
Status WidthSearch::challengeWithEdgeMoe(const WidthAssignment &others) {
  std::vector<uint32_t> widths = uniformWidths();
  const MeasuredWidths *best = cheapest();
  for (size_t w = 0; best && w + 1 < widths.size(); ++w) {
    if (costOf(uniform(widths[w + 1], others)) >= best->cost)
      continue;
    EdgeMoeList list = edgeMoeList(outcome.estimates, widths[w], widths[w + 1]);
    std::erase_if(list.items, [&](uint32_t item) { return input.isProbedDirectly[item]; });
    auto assignmentOf = [&](size_t count) {
      WidthAssignment assignment = edgeMoeAssignment(outcome.estimates, list, count);
      for (size_t i = 0; i < assignment.size(); ++i)
        if (input.isProbedDirectly[i])
          assignment[i] = others[i];
      return assignment;
    };
    size_t count = 0;
    while (count < list.items.size() && costOf(assignmentOf(count)) >= best->cost)
      ++count;
    const size_t step = std::max<size_t>(list.items.size() / 20, 1);
    for (; count <= list.items.size(); count += step) {
      WidthAssignment assignment = assignmentOf(count);
      MOERT_ASSIGN_OR_RETURN(bool isMeasured, measure("edgemoe", assignment));
      if (!isMeasured || !meets(*find(assignment)))
        return {};
    }
    return {};
  }
  return {};
}

// The published selection by itself: between the uniform widths around the bar, as many of the list
// at the lower one as the bar allows.
Status WidthSearch::bisectEdgeMoe(uint32_t most) {
  const WidthAssignment others = firstOthers();
  std::vector<uint32_t> widths = uniformWidths();
  for (size_t w = 0; w + 1 < widths.size(); ++w) {
    const MeasuredWidths *high = find(uniform(widths[w], others));
    const MeasuredWidths *low = find(uniform(widths[w + 1], others));
    if (!high || !meets(*high) || !low || meets(*low))
      continue;
    EdgeMoeList list = edgeMoeList(outcome.estimates, widths[w], widths[w + 1]);
    std::erase_if(list.items, [&](uint32_t item) { return input.isProbedDirectly[item]; });
    size_t good = 0, bad = list.items.size();
    for (uint32_t step = 0; step < most && bad - good > 1; ++step) {
      size_t count = (good + bad) / 2;
      WidthAssignment assignment = edgeMoeAssignment(outcome.estimates, list, count);
      for (size_t i = 0; i < assignment.size(); ++i)
        if (input.isProbedDirectly[i])
          assignment[i] = others[i];
      MOERT_ASSIGN_OR_RETURN(bool isMeasured, measure("edgemoe", assignment));
      if (!isMeasured)
        return {};
      (meets(*find(assignment)) ? good : bad) = count;
    }
    return {};
  }
  return {};
}

// Looks for something cheaper than what met the bar so far.
Status WidthSearch::improve(uint32_t most) {
  switch (input.solver) {
  case SolverChoice::kAuto:
  case SolverChoice::kKnapsack:
    return bisect(most);
  case SolverChoice::kEdgeMoe:
    return bisectEdgeMoe(most);
  case SolverChoice::kUniform:
    return {};
  }
  return {};
}

Status WidthSearch::challenge() {
  const MeasuredWidths *best = cheapest();
  if (!best)
    return {};
  const WidthAssignment others = best->assignment; // `measured` grows.
  MOERT_RETURN_IF_ERROR(challengeWithUniform(others));
  return challengeWithEdgeMoe(others);
}

// Whether losses on unseen text are larger or smaller than on the search's is seen by looking, and
// the bar on the search's text moves accordingly: up where a look failed, down where one found
// room.
void WidthSearch::moveBar(const MeasuredWidths &widths, const Measurement &acceptance) {
  double ratio = acceptance.upperBound / std::max(widths.measurement.upperBound, 1e-9);
  bar = input.target / std::clamp(ratio, 1 / kMostBarShift, kMostBarShift) * kBarMargin;
  if (acceptance.upperBound > input.target)
    bar = std::min(bar, widths.measurement.upperBound * kLeastTightening);
}

// False: nothing that was not looked at yet meets the bar, or would save anything.
Result<bool> WidthSearch::look() {
  const MeasuredWidths *best = cheapest();
  if (!best || outcome.looks == kMaxLooks)
    return false;
  if (outcome.looks > 0 && best->assignment == lastLook)
    return false;
  if (outcome.isMet && best->cost >= outcome.best.cost * (1 - kCostTolerance))
    return false;
  MeasuredWidths widths = *best;
  lastLook = widths.assignment;
  ++outcome.looks;
  MOERT_ASSIGN_OR_RETURN(Measurement acceptance, judge.accept(widths.assignment));
  const bool isAccepted = acceptance.upperBound <= input.target;
  if (isAccepted || !outcome.isMet) {
    outcome.best = widths;
    outcome.acceptance = acceptance;
  }
  outcome.isMet = outcome.isMet || isAccepted;
  moveBar(widths, acceptance);
  return true;
}

// The first look is at what a few measurements have found, to learn where the bar has to be; the
// others are at the best for that bar.
Status WidthSearch::lookAndImprove() {
  MOERT_RETURN_IF_ERROR(improve(kMeasurementsBeforeLooking));
  bool hasLooked = true;
  while (hasLooked) {
    MOERT_ASSIGN_OR_RETURN(hasLooked, look());
    if (!hasLooked || outcome.looks == kMaxLooks)
      return {};
    MOERT_RETURN_IF_ERROR(improve(kMeasurementsPerBisection));
    if (input.solver == SolverChoice::kAuto && outcome.looks == 1)
      MOERT_RETURN_IF_ERROR(challenge());
  }
  return {};
}

Result<WidthSearchOutcome> WidthSearch::run() {
  MOERT_RETURN_IF_ERROR(measureUniforms());
  if (!cheapest()) {
    // Of the search's text nothing is good enough; unseen text may be kinder.
    const auto least =
        std::min_element(outcome.measured.begin(), outcome.measured.end(),
                         [](const MeasuredWidths &a, const MeasuredWidths &b) {
                           return a.measurement.upperBound < b.measurement.upperBound;
                         });
    bar = least->measurement.upperBound;
    MOERT_ASSIGN_OR_RETURN(bool hasLooked, look());
    if (!hasLooked || !outcome.isMet)
      return std::move(outcome);
    MOERT_RETURN_IF_ERROR(measureUniforms());
  }
  if (input.solver != SolverChoice::kUniform)
    MOERT_RETURN_IF_ERROR(probeGroups());
  MOERT_RETURN_IF_ERROR(lookAndImprove());
  return std::move(outcome);
}

Result<WidthSearchOutcome> searchWidths(const WidthSearchInput &input, WidthJudge &judge) {
  MOERT_RETURN_IF_ERROR(checkInput(input));
  return WidthSearch(input, judge).run();
}

} // namespace moec
