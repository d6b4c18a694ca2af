#include "compiler/plan/WidthSearch.h"

#include "compiler/plan/WidthSolvers.h"
#include "tests/unit/plan/SyntheticWidths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

using namespace moec;
using namespace moec::test;
using moert::Result;

static WidthSearchOutcome searched(SyntheticWidths &model) {
  auto outcome = searchWidths(model.input, model);
  REQUIRE_MESSAGE(outcome.isOk(), outcome.status().message());
  return std::move(outcome).value();
}

// What the knapsack makes of the true losses: nobody can do better by more than its tolerance.
static double bestPossibleCost(const SyntheticWidths &model) {
  WidthProblem truth = model.input.problem;
  for (size_t i = 0; i < truth.items.size(); ++i)
    for (size_t o = 0; o < truth.items[i].options.size(); ++o)
      truth.items[i].options[o].loss = model.nats[i][o];
  truth.lossLimit = std::log(1 + model.input.target / 1.08) - model.baseNats;
  return knapsackLowerBound(truth);
}

// A step of the chain is about 1% of the bytes.
TEST_CASE("the search meets its target within three percent of the fewest possible bytes") {
  for (double target : {0.01, 0.02, 0.05, 0.1, 0.2}) {
    SyntheticWidths model(target);
    WidthSearchOutcome outcome = searched(model);
    REQUIRE(outcome.isMet);
    CHECK(model.bounds[outcome.best.assignment] <= target);
    CHECK(outcome.best.cost <= bestPossibleCost(model) * 1.03);
    CHECK(outcome.best.solver == "mckp");
  }
}

TEST_CASE("the search takes no more measurements than it may") {
  for (uint32_t limit : {24u, 30u, 40u}) {
    SyntheticWidths model(0.02);
    model.input.maxMeasurements = limit;
    WidthSearchOutcome outcome = searched(model);
    CHECK(outcome.measurements == model.probes + model.measures);
    CHECK(outcome.measurements <= limit);
    CHECK(outcome.isMet);
  }
}

TEST_CASE("the search is the same every time") {
  SyntheticWidths first(0.03), second(0.03);
  WidthSearchOutcome a = searched(first), b = searched(second);
  CHECK(a.best.assignment == b.best.assignment);
  CHECK(a.measurements == b.measurements);
}

TEST_CASE("squared errors of experts whose width is given do not count as nats") {
  SyntheticWidths model(0.02), given(0.02);
  for (SyntheticWidths *each : {&model, &given})
    for (size_t i = 0; i < each->input.problem.items.size(); ++i) {
      if (each->input.isProbedDirectly[i])
        continue;
      std::vector<WidthOption> &options = each->input.problem.items[i].options;
      options = {options[1]};
      each->nats[i] = {each->nats[i][1]};
      options[0].loss = each == &given ? 1000 : 0;
    }
  const WidthSearchOutcome expected = searched(model), outcome = searched(given);
  REQUIRE(outcome.isMet);
  CHECK(outcome.best.assignment == expected.best.assignment);
  CHECK(outcome.best.assignment.back() != 0); // Residents have fewer bits than they could have.
}

TEST_CASE("measurements that end between an item's options are refused") {
  SyntheticWidths whole(0.02), model(0.02);
  whole.input.solver = model.input.solver = SolverChoice::kKnapsack;
  searched(whole);
  const uint32_t uniforms = 2;                  // 4 and 3 bits; the last is beyond the target.
  REQUIRE(whole.probes == 1 + kLayers + 2 * 2); // Nothing, layers, two residents' options.
  model.input.maxMeasurements = uniforms + whole.probes - 1; // The last resident's last is missing.
  auto outcome = searchWidths(model.input, model);
  REQUIRE(!outcome.isOk());
  CHECK(outcome.status().message().find("measurements do not reach") != std::string::npos);
}

TEST_CASE("a chain goes from safe to cheap and ends with the first test that fails") {
  SyntheticWidths model(0.05);
  WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  CHECK(outcome.tests == model.tested.size());
  REQUIRE(model.tested.size() > 2);
  for (size_t i = 0; i < model.tested.size(); ++i) {
    CHECK(model.tested[i].first == AcceptanceChain::kMain);
    if (i > 0)
      CHECK(model.costOf(model.tested[i].second) < model.costOf(model.tested[i - 1].second));
    CHECK((model.bounds[model.tested[i].second] <= 0.05) == (i + 1 < model.tested.size()));
  }
  CHECK(outcome.best.assignment == model.tested[model.tested.size() - 2].second);
}

TEST_CASE("what is tested next depends on passing and failing alone, not on the bound") {
  SyntheticWidths model(0.05), narrow(0.05);
  WidthSearchOutcome outcome = searched(model);
  // Bounds of half the size that pass and fail alike.
  struct : SyntheticWidths {
    using SyntheticWidths::SyntheticWidths;
    double boundOf(const WidthAssignment &assignment) const override {
      const double bound = SyntheticWidths::boundOf(assignment);
      return bound <= input.target ? bound / 2 : bound * 2;
    }
  } other(0.05);
  WidthSearchOutcome same = searched(other);
  CHECK(other.tested == model.tested);
  CHECK(same.best.assignment == outcome.best.assignment);
}

TEST_CASE("where the first test fails the reserve chain tests safer candidates") {
  for (double factor : {1.3, 2.0, 4.0}) {
    SyntheticWidths model(0.05);
    model.acceptanceFactor = factor;
    WidthSearchOutcome outcome = searched(model);
    REQUIRE(outcome.isMet);
    CHECK(outcome.chain == AcceptanceChain::kReserve);
    CHECK(model.tested[0].first == AcceptanceChain::kMain);
    for (size_t i = 1; i < model.tested.size(); ++i) {
      CHECK(model.tested[i].first == AcceptanceChain::kReserve);
      CHECK(model.costOf(model.tested[i].second) > model.costOf(model.tested[0].second));
    }
    CHECK(model.bounds[outcome.best.assignment] <= 0.05);
  }
}

// Losses differ from what the errors say by up to a fifth, each assignment's in its own way.
struct UnevenWidths : SyntheticWidths {
  using SyntheticWidths::SyntheticWidths;
  Result<Measurement> measure(const WidthAssignment &assignment) override {
    ++measures;
    uint32_t mixed = 0;
    for (uint32_t option : assignment)
      mixed = mixed * 31 + option + 1;
    const double noise = double(std::mt19937(mixed)()) / 4294967296.0 - 0.5;
    return measured(natsOf(assignment) * std::exp(0.4 * noise));
  }
};

TEST_CASE("the first test is of widths near its threshold, though losses are uneven") {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    UnevenWidths model(0.05, seed);
    WidthSearchOutcome outcome = searched(model);
    REQUIRE(!model.tested.empty());
    // All tests together span about 10% of the bytes.
    CHECK(model.costOf(model.tested.front().second) <= 1.1 * bestPossibleCost(model));
  }
}

TEST_CASE("unseen text that loses less gets fewer bits") {
  SyntheticWidths model(0.05), kinder(0.05);
  kinder.acceptanceFactor = 0.6;
  WidthSearchOutcome outcome = searched(model), cheaper = searched(kinder);
  REQUIRE(cheaper.isMet);
  CHECK(kinder.bounds[cheaper.best.assignment] <= 0.05);
  CHECK(kinder.bounds[cheaper.best.assignment] >= 0.05 * 0.8);
  CHECK(cheaper.best.cost < outcome.best.cost * 0.95);
}

TEST_CASE("a target that only unseen text meets is met") {
  SyntheticWidths model(0.0002);
  model.acceptanceFactor = 0.5;
  CHECK(searched(model).isMet);
}

TEST_CASE("a chosen solver's widths are what comes out, and no others'") {
  SyntheticWidths all(0.02);
  double cheapest = searched(all).best.cost;
  for (SolverChoice solver :
       {SolverChoice::kKnapsack, SolverChoice::kEdgeMoe, SolverChoice::kUniform}) {
    SyntheticWidths model(0.02);
    model.input.solver = solver;
    WidthSearchOutcome outcome = searched(model);
    REQUIRE(outcome.isMet);
    CHECK(model.bounds[outcome.best.assignment] <= 0.02);
    CHECK(outcome.best.cost >= cheapest * 0.99);
    const char *names[] = {"", "mckp", "edgemoe", "uniform"};
    CHECK(outcome.best.solver == names[int(solver)]);
  }
}

TEST_CASE("one width for all takes no probes") {
  SyntheticWidths model(0.02);
  model.input.solver = SolverChoice::kUniform;
  searched(model);
  CHECK(model.probes == 0);
}

TEST_CASE("widths beside which uniform ones are measured stay where they are") {
  SyntheticWidths model(0.02);
  model.input.solver = SolverChoice::kUniform;
  model.input.others = uniformAssignment(model.input.problem, 8);
  WidthSearchOutcome outcome = searched(model);
  for (size_t i = 0; i < model.input.isProbedDirectly.size(); ++i)
    if (model.input.isProbedDirectly[i])
      CHECK(outcome.best.assignment[i] == 1);
}

static SyntheticWidths modelWithWiderDowns(double target, double downError) {
  return SyntheticWidths(target, 3,
                         {{8, 8}, {6, 6}, {5, 5}, {4, 6}, {4, 4}, {3, 5}, {3, 3}, {2, 4}, {2, 2}},
                         downError);
}

// Between whole widths that have options with a wider down beside them.
static bool hasWiderDown(const SyntheticWidths &model, const WidthAssignment &assignment) {
  for (size_t i = 0; i < assignment.size(); ++i) {
    const double bits = model.input.problem.items[i].options[assignment[i]].bits;
    if (bits != std::floor(bits))
      return true;
  }
  return false;
}

TEST_CASE("where most of the error is down's, wider downs take fewer bytes") {
  for (double target : {0.02, 0.1}) {
    SyntheticWidths model = modelWithWiderDowns(target, 0.8);
    SyntheticWidths whole(target, 3, {{8, 8}, {6, 6}, {5, 5}, {4, 4}, {3, 3}, {2, 2}}, 0.8);
    const WidthSearchOutcome outcome = searched(model), beside = searched(whole);
    REQUIRE(outcome.isMet);
    CHECK(hasWiderDown(model, outcome.best.assignment));
    CHECK(outcome.best.cost < 0.98 * beside.best.cost);
    CHECK(outcome.best.cost <= bestPossibleCost(model) * 1.03);
  }
}

TEST_CASE("wider downs add no measurements of uniform widths before the knapsack's") {
  for (SolverChoice solver : {SolverChoice::kKnapsack, SolverChoice::kEdgeMoe}) {
    SyntheticWidths model = modelWithWiderDowns(0.02, 0.8);
    model.input.solver = solver;
    for (const MeasuredWidths &widths : searched(model).measured)
      if (widths.solver != kKnapsackSolver)
        CHECK_FALSE(hasWiderDown(model, widths.assignment));
  }
  SyntheticWidths model = modelWithWiderDowns(0.02, 0.8);
  SyntheticWidths whole(0.02, 3, {{8, 8}, {6, 6}, {5, 5}, {4, 4}, {3, 3}, {2, 2}}, 0.8);
  CHECK(searched(model).measurements <= searched(whole).measurements + 2);
}

TEST_CASE("one width for all may be one with a wider down, measured until one loses too much") {
  SyntheticWidths model = modelWithWiderDowns(0, 0.8);
  model.input.others = uniformAssignment(model.input.problem, 8);
  const auto allAt = [&](double bits) {
    WidthAssignment assignment = uniformAssignment(model.input.problem, bits);
    for (size_t i = 0; i < assignment.size(); ++i)
      if (model.input.isProbedDirectly[i])
        assignment[i] = model.input.others[i];
    return assignment;
  };
  const auto natsAt = [&](double bits) { return model.natsOf(allAt(bits)); };
  // 5 bits and 4 with a down of 6 meet it, 4 bits not even the last threshold, 1.9 times as much.
  const double most = 1.3 * natsAt(14.0 / 3);
  REQUIRE(natsAt(5) < most);
  REQUIRE(natsAt(4) > 2 * most);
  model.input.target = model.measured(most).predictedBound;
  model.input.solver = SolverChoice::kUniform;
  const WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  CHECK(outcome.best.solver == "uniform");
  CHECK(outcome.best.assignment == allAt(14.0 / 3));
  CHECK(model.measures == 4); // 4 and 5 bits, 4 and 3 with a wider down.
}

TEST_CASE("where all experts are alike, one width with a wider down may be best") {
  SyntheticWidths model = modelWithWiderDowns(0.02, 0.8);
  for (size_t i = 0; i < model.nats.size(); ++i)
    if (!model.input.isProbedDirectly[i]) {
      model.nats[i] = {0, 0, 0.0001, 0.0001, 0.01, 0.01, 0.01, 0.01, 0.01};
      for (size_t o = 0; o < model.nats[i].size(); ++o)
        model.input.problem.items[i].options[o].loss = model.nats[i][o];
    }
  // 96 experts at 4 bits with a down of 6 lose 0.0096; a single one below as much as a hundred.
  model.input.target = 0.0135;
  const WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  CHECK(outcome.best.solver == "uniform");
  CHECK(hasWiderDown(model, outcome.best.assignment));
}

TEST_CASE("experts of a single width that has a wider down are searched with it") {
  SyntheticWidths model(0.02, 3, {{4, 6}}, 0.8);
  const WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  CHECK(outcome.best.assignment.back() != 0); // Residents have fewer bits than they could have.
}

TEST_CASE("a target below what the most bits lose is not met, and the least loss is named") {
  SyntheticWidths model(0.0001);
  WidthSearchOutcome outcome = searched(model);
  CHECK_FALSE(outcome.isMet);
  CHECK(outcome.tests == 1);
  CHECK(outcome.best.assignment == WidthAssignment(model.input.problem.items.size(), 0));
}

TEST_CASE(
    "text on which no assignment is accepted ends the search with the first test of each chain") {
  SyntheticWidths model(0.02);
  model.acceptanceFactor = 100;
  WidthSearchOutcome outcome = searched(model);
  CHECK_FALSE(outcome.isMet);
  CHECK(outcome.tests == 2);
  CHECK(model.tested.size() == 2);
  CHECK(outcome.best.assignment == model.tested[1].second); // The safer one.
}

TEST_CASE("where all items are alike, uniform is best and is what comes out") {
  SyntheticWidths model(0.02);
  for (size_t i = 0; i < model.nats.size(); ++i)
    if (!model.input.isProbedDirectly[i]) {
      model.nats[i] = {0, 0, 0.0001, 0.01, 0.01};
      for (WidthOption &option : model.input.problem.items[i].options)
        option.loss = model.nats[i][size_t(&option - model.input.problem.items[i].options.data())];
    }
  // 96 experts at 4 bits lose 0.0096; a single one at 3 or 2 bits as much as a hundred at 4.
  model.input.target = 0.0135;
  WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  CHECK(outcome.best.solver == "uniform");
}

TEST_CASE("where even the fewest bits lose little, they are what comes out") {
  SyntheticWidths model(0.5);
  for (std::vector<double> &truth : model.nats)
    for (double &value : truth)
      value *= 0.001;
  WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  for (size_t i = 0; i < outcome.best.assignment.size(); ++i)
    CHECK(outcome.best.assignment[i] + 1 == model.input.problem.items[i].options.size());
}

TEST_CASE("estimates that are wrong by a factor cost measurements, not the target") {
  SyntheticWidths model(0.02);
  for (WidthItem &item : model.input.problem.items)
    for (WidthOption &option : item.options)
      option.loss *= 1000;
  WidthSearchOutcome outcome = searched(model);
  CHECK(outcome.isMet);
  CHECK(outcome.best.cost <= bestPossibleCost(model) * 1.02);
}

TEST_CASE("too few measurements to probe every group are refused, and never exceeded") {
  SyntheticWidths model(0.02);
  for (uint32_t limit = 1; limit < kLayers; ++limit) {
    model.input.maxMeasurements = limit;
    model.probes = model.measures = 0;
    CHECK(searchWidths(model.input, model).status().code() == moert::StatusCode::kInvalidInput);
    CHECK(model.probes + model.measures <= limit);
  }
}

namespace {

/// Accepted by answers: what is lost of them grows with a power of the divergence, and their bound
/// has a part of its own.
struct AnswersModel : SyntheticWidths {
  double power = 0.7, scale = 1, noise = 0.002;
  bool isOutOfReach = false;

  explicit AnswersModel(double target) : SyntheticWidths(target) { input.firstThreshold = target; }

  Result<Measurement> measure(const WidthAssignment &assignment) override {
    ++measures;
    const double klNats = natsOf(assignment);
    return Measurement{klNats, klNats * 1.05, {}, klNats, 0};
  }
  double boundOf(const WidthAssignment &assignment) const override {
    return scale * 0.02 * std::pow(natsOf(assignment) / 0.02, power) + noise;
  }
  Result<TestResult> accept(const WidthAssignment &assignment, AcceptanceChain chain) override {
    auto result = SyntheticWidths::accept(assignment, chain);
    return isOutOfReach ? TestResult::kOutOfReach : result;
  }
};

} // namespace

TEST_CASE("a target in another loss than the search measures is met, and room is used") {
  for (SolverChoice solver : {SolverChoice::kAuto, SolverChoice::kKnapsack, SolverChoice::kUniform,
                              SolverChoice::kEdgeMoe})
    for (double power : {0.5, 0.75, 1.0})
      for (double scale : {0.25, 1.0, 4.0}) {
        AnswersModel model(0.02);
        model.power = power;
        model.scale = scale;
        model.input.solver = solver;
        WidthSearchOutcome outcome = searched(model);
        INFO(int(solver), " ", power, " ", scale);
        REQUIRE(outcome.isMet);
        CHECK(model.bounds[outcome.best.assignment] <= 0.02);
        // Against a search that knows the divergence that just meets the target. Neighbouring
        // thresholds of a chain differ by a factor of 1.6.
        const double most = 0.02 * std::pow(0.018 / 0.02 / scale, 1 / power);
        if (solver == SolverChoice::kAuto) {
          AnswersModel known(0.02);
          known.power = power;
          known.scale = scale;
          known.input.firstThreshold = most * 1.05;
          CHECK(outcome.best.cost <= searched(known).best.cost * 1.15);
        }
      }
}

TEST_CASE("answers of which nothing is lost let the divergence rise to the end of the chain") {
  AnswersModel model(0.02);
  model.scale = model.noise = 0;
  WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  CHECK(model.natsOf(outcome.best.assignment) > 0.02 * 5);
  CHECK(model.natsOf(outcome.best.assignment) * 1.05 <= 0.02 * 25);
}

TEST_CASE("too few answers to show the target end the search at its first test") {
  AnswersModel model(0.02);
  model.noise = 0.03;
  model.isOutOfReach = true;
  WidthSearchOutcome outcome = searched(model);
  CHECK_FALSE(outcome.isMet);
  CHECK(outcome.tests == 1);
}

TEST_CASE("where no divergence keeps enough answers, a small one is tested before giving up") {
  AnswersModel model(0.02);
  model.noise = 0.05;
  WidthSearchOutcome outcome = searched(model);
  CHECK_FALSE(outcome.isMet);
  CHECK(model.tested.back().first == AcceptanceChain::kReserve);
  CHECK(model.natsOf(model.tested.back().second) < 0.02 / 32);
}

TEST_CASE("a first threshold that only the most bits are near is left by testing") {
  AnswersModel model(0.02);
  model.input.firstThreshold = 1e-6;
  model.scale = 0.1;
  CHECK(searched(model).isMet);
}

TEST_CASE("a first threshold of nothing is refused") {
  AnswersModel model(0.02);
  for (double threshold : {0.0, -1.0, std::nan("")}) {
    model.input.firstThreshold = threshold;
    CHECK(searchWidths(model.input, model).status().code() == moert::StatusCode::kInvalidInput);
  }
}

TEST_CASE("one width for all follows the thresholds") {
  AnswersModel model(0.02);
  model.input.solver = SolverChoice::kUniform;
  model.baseNats = 0.0005;
  model.input.firstThreshold = 0.0007;
  model.scale = model.noise = 0;
  WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  CHECK(outcome.tests > 1);
  CHECK(model.natsOf(model.tested.back().second) > model.natsOf(model.tested.front().second));
}

TEST_CASE("inputs that contradict themselves are refused") {
  SyntheticWidths model(0.02);
  WidthSearchInput groups = model.input, target = model.input, flags = model.input;
  WidthSearchInput measurements = model.input, choices = model.input;
  groups.groups[0] = uint32_t(groups.groups.size());
  target.target = 0;
  flags.isProbedDirectly.pop_back();
  measurements.maxMeasurements = 0;
  choices.isProbedDirectly.assign(choices.isProbedDirectly.size(), true);
  for (const WidthSearchInput &input : {groups, target, flags, measurements, choices})
    CHECK(searchWidths(input, model).status().code() == moert::StatusCode::kInvalidInput);
}

namespace {

/// Every item's bytes take a time of their own, however the others are stored.
struct EvenTimes : WidthTimes {
  const WidthProblem &problem;
  std::vector<double> nsPerByte;
  bool isHeld = true;
  uint32_t begun = 0;

  explicit EvenTimes(const SyntheticWidths &model) : problem(model.input.problem) {
    std::mt19937 random(11);
    for (size_t i = 0; i < problem.items.size(); ++i)
      nsPerByte.push_back(i % 2 == 0 ? 10 : 0.1 + double(random() % 10) / 100);
  }

  Result<bool> begin(const WidthAssignment &) override {
    ++begun;
    return isHeld;
  }
  Result<double> tokenNs(const WidthAssignment &assignment) override {
    double ns = 0;
    for (size_t i = 0; i < assignment.size(); ++i)
      ns += nsPerByte[i] * problem.items[i].options[assignment[i]].cost;
    return ns;
  }
  Result<std::vector<std::vector<double>>> optionNs(const WidthAssignment &) override {
    std::vector<std::vector<double>> ns;
    for (size_t i = 0; i < problem.items.size(); ++i) {
      ns.emplace_back();
      for (const WidthOption &option : problem.items[i].options)
        ns.back().push_back(nsPerByte[i] * option.cost);
    }
    return ns;
  }
};

} // namespace

TEST_CASE("where times are known the least time that keeps the target is chosen") {
  for (double target : {0.02, 0.05, 0.1}) {
    SyntheticWidths model(target);
    EvenTimes times(model);
    model.input.times = &times;
    model.input.maxMeasurements = 48;
    WidthSearchOutcome outcome = searched(model);
    REQUIRE(outcome.isMet);
    CHECK(outcome.isTimed);
    CHECK(times.begun == 1);
    CHECK(model.bounds[outcome.best.assignment] <= target);
    CHECK(outcome.best.solver == kSecondsSolver);
    REQUIRE(outcome.fewestBytes);
    CHECK(outcome.fewestBytes->solver == kKnapsackSolver);
    CHECK(outcome.best.tokenNs < 0.9 * outcome.fewestBytes->tokenNs);
    CHECK(outcome.best.cost > outcome.fewestBytes->cost);
    for (const MeasuredWidths &known : outcome.measured)
      CHECK(known.tokenNs == *times.tokenNs(known.assignment));
  }
}

TEST_CASE("times choose between the widths that a solver may take") {
  SyntheticWidths model(0.05);
  EvenTimes times(model);
  model.input.times = &times;
  model.input.solver = SolverChoice::kEdgeMoe;
  WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  CHECK(outcome.isTimed);
  CHECK(outcome.best.solver != kSecondsSolver);
  CHECK(outcome.best.solver != kKnapsackSolver);
}

TEST_CASE("without a budget that holds the widths bytes decide as if there were no times") {
  SyntheticWidths plain(0.05), model(0.05);
  EvenTimes times(model);
  times.isHeld = false;
  model.input.times = &times;
  const WidthSearchOutcome expected = searched(plain), outcome = searched(model);
  CHECK_FALSE(outcome.isTimed);
  CHECK_FALSE(outcome.fewestBytes);
  CHECK(outcome.best.assignment == expected.best.assignment);
  CHECK(outcome.measurements == expected.measurements);
}
