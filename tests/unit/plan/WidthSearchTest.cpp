#include "compiler/plan/WidthSearch.h"

#include "compiler/plan/WidthSolvers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace moec;
using moert::Result;

namespace {

constexpr size_t kLayers = 6, kExperts = 16;
constexpr double kBytesPerBit = 1000;

/// Layers of experts and two classes of resident weights, whose true losses are known: a squared
/// error costs each layer differently, losses add up, and text differs from text by a factor.
struct SyntheticModel : WidthJudge {
  WidthSearchInput input;
  std::vector<std::vector<double>> nats; // The truth, of each item and option.
  double baseNats = 0.0002;
  double acceptanceFactor = 1; // How much more is lost on text not seen.
  uint32_t probes = 0, measures = 0, accepts = 0;

  explicit SyntheticModel(double target, uint32_t seed = 3) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> unit(0, 1);
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      double sensitivity = std::exp(2 * unit(random));
      for (size_t e = 0; e < kExperts; ++e) {
        double size = std::exp(3 * unit(random));
        WidthItem item{"layer " + std::to_string(layer) + " expert " + std::to_string(e), {}};
        std::vector<double> truth;
        for (uint32_t bits : {8u, 6u, 4u, 3u, 2u}) {
          double error = size * std::pow(4.0, -double(bits));
          item.options.push_back({bits, bits * kBytesPerBit, error});
          truth.push_back(0.002 * sensitivity * error);
        }
        add(item, layer, false, truth);
      }
    }
    for (uint32_t resident = 0; resident < 2; ++resident)
      add({"resident " + std::to_string(resident),
           {{16, 16 * kBytesPerBit, 0}, {8, 8 * kBytesPerBit, 0}, {4, 4 * kBytesPerBit, 0}}},
          uint32_t(kLayers) + resident, true, {0, 0.0001, 0.004 * (1 + resident)});
    input.target = target;
  }

  void add(WidthItem item, uint32_t group, bool isProbedDirectly, std::vector<double> truth) {
    input.problem.items.push_back(std::move(item));
    input.groups.push_back(group);
    input.isProbedDirectly.push_back(isProbedDirectly);
    nats.push_back(std::move(truth));
  }

  double natsOf(const WidthAssignment &assignment) const {
    double sum = baseNats;
    for (size_t i = 0; i < assignment.size(); ++i)
      sum += nats[i][assignment[i]];
    return sum;
  }
  Measurement measured(double klNats) const {
    double loss = std::exp(klNats) - 1;
    return {loss, loss * 1.08, klNats};
  }

  Result<double> probe(const WidthAssignment &assignment) override {
    ++probes;
    return natsOf(assignment);
  }
  Result<Measurement> measure(const WidthAssignment &assignment) override {
    ++measures;
    return measured(natsOf(assignment));
  }
  Result<Measurement> accept(const WidthAssignment &assignment) override {
    ++accepts;
    return measured(natsOf(assignment) * acceptanceFactor);
  }
};

} // namespace

static WidthSearchOutcome searched(SyntheticModel &model) {
  auto outcome = searchWidths(model.input, model);
  REQUIRE_MESSAGE(outcome.isOk(), outcome.status().message());
  return std::move(outcome).value();
}

// What the knapsack makes of the true losses: nobody can do better by more than its tolerance.
static double bestPossibleCost(const SyntheticModel &model) {
  WidthProblem truth = model.input.problem;
  for (size_t i = 0; i < truth.items.size(); ++i)
    for (size_t o = 0; o < truth.items[i].options.size(); ++o)
      truth.items[i].options[o].loss = model.nats[i][o];
  truth.lossLimit = std::log(1 + model.input.target / 1.08) - model.baseNats;
  return knapsackLowerBound(truth);
}

TEST_CASE("the search meets its target within two percent of the fewest possible bytes") {
  for (double target : {0.01, 0.02, 0.05, 0.1, 0.2}) {
    SyntheticModel model(target);
    WidthSearchOutcome outcome = searched(model);
    REQUIRE(outcome.isMet);
    CHECK(outcome.acceptance.upperBound <= target);
    CHECK(outcome.best.cost <= bestPossibleCost(model) * 1.02);
    CHECK(outcome.best.solver == "mckp");
  }
}

TEST_CASE("the search takes no more measurements than it may") {
  for (uint32_t limit : {24u, 30u, 40u}) {
    SyntheticModel model(0.02);
    model.input.maxMeasurements = limit;
    WidthSearchOutcome outcome = searched(model);
    CHECK(outcome.measurements == model.probes + model.measures);
    CHECK(outcome.measurements <= limit);
    CHECK(outcome.isMet);
  }
}

TEST_CASE("the search is the same every time") {
  SyntheticModel first(0.03), second(0.03);
  WidthSearchOutcome a = searched(first), b = searched(second);
  CHECK(a.best.assignment == b.best.assignment);
  CHECK(a.measurements == b.measurements);
}

TEST_CASE("squared errors of experts whose width is given do not count as nats") {
  SyntheticModel model(0.02), given(0.02);
  for (SyntheticModel *each : {&model, &given})
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
  SyntheticModel whole(0.02), model(0.02);
  whole.input.solver = model.input.solver = SolverChoice::kKnapsack;
  searched(whole);
  const uint32_t uniforms = 4; // 8, 6, 4 and 3 bits; the last is beyond the target.
  REQUIRE(whole.probes == 1 + kLayers + 2 * 2); // Of nothing, of layers, of two residents' options.
  model.input.maxMeasurements = uniforms + whole.probes - 1; // The last resident's last is missing.
  auto outcome = searchWidths(model.input, model);
  REQUIRE(!outcome.isOk());
  CHECK(outcome.status().message().find("measurements do not reach") != std::string::npos);
}

TEST_CASE("a bar that unseen text does not meet is raised until it does") {
  SyntheticModel model(0.05);
  model.acceptanceFactor = 1.3;
  WidthSearchOutcome outcome = searched(model);
  CHECK(outcome.isMet);
  CHECK(outcome.looks == 2);
  CHECK(outcome.acceptance.upperBound <= 0.05);
}

TEST_CASE("unseen text that loses less gets fewer bits") {
  SyntheticModel model(0.05), kinder(0.05);
  kinder.acceptanceFactor = 0.6;
  WidthSearchOutcome outcome = searched(model), cheaper = searched(kinder);
  REQUIRE(cheaper.isMet);
  CHECK(cheaper.acceptance.upperBound <= 0.05);
  CHECK(cheaper.acceptance.upperBound >= 0.05 * 0.9);
  CHECK(cheaper.best.cost < outcome.best.cost * 0.95);
}

TEST_CASE("a target that only unseen text meets is met") {
  SyntheticModel model(0.0002);
  model.acceptanceFactor = 0.5;
  CHECK(searched(model).isMet);
}

TEST_CASE("a chosen solver's widths are what comes out, and no others'") {
  SyntheticModel all(0.02);
  double cheapest = searched(all).best.cost;
  for (SolverChoice solver :
       {SolverChoice::kKnapsack, SolverChoice::kEdgeMoe, SolverChoice::kUniform}) {
    SyntheticModel model(0.02);
    model.input.solver = solver;
    WidthSearchOutcome outcome = searched(model);
    REQUIRE(outcome.isMet);
    CHECK(outcome.acceptance.upperBound <= 0.02);
    CHECK(outcome.best.cost >= cheapest * 0.99);
    const char *names[] = {"", "mckp", "edgemoe", "uniform"};
    CHECK(outcome.best.solver == names[int(solver)]);
  }
}

TEST_CASE("one width for all takes no probes") {
  SyntheticModel model(0.02);
  model.input.solver = SolverChoice::kUniform;
  searched(model);
  CHECK(model.probes == 0);
}

TEST_CASE("widths beside which uniform ones are measured stay where they are") {
  SyntheticModel model(0.02);
  model.input.solver = SolverChoice::kUniform;
  model.input.others = uniformAssignment(model.input.problem, 8);
  WidthSearchOutcome outcome = searched(model);
  for (size_t i = 0; i < model.input.isProbedDirectly.size(); ++i)
    if (model.input.isProbedDirectly[i])
      CHECK(outcome.best.assignment[i] == 1);
}

TEST_CASE("a target below what the most bits lose is not met, and the least loss is named") {
  SyntheticModel model(0.0001);
  WidthSearchOutcome outcome = searched(model);
  CHECK_FALSE(outcome.isMet);
  CHECK(outcome.looks == 1);
  CHECK(outcome.best.assignment == WidthAssignment(model.input.problem.items.size(), 0));
}

TEST_CASE("text on which no assignment is accepted ends the search after its last look") {
  SyntheticModel model(0.02);
  model.acceptanceFactor = 100;
  WidthSearchOutcome outcome = searched(model);
  CHECK_FALSE(outcome.isMet);
  CHECK(outcome.looks <= kMaxLooks);
  CHECK(model.accepts == outcome.looks);
}

TEST_CASE("where all items are alike, uniform is best and is what comes out") {
  SyntheticModel model(0.02);
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
  SyntheticModel model(0.5);
  for (std::vector<double> &truth : model.nats)
    for (double &value : truth)
      value *= 0.001;
  WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  for (size_t i = 0; i < outcome.best.assignment.size(); ++i)
    CHECK(outcome.best.assignment[i] + 1 == model.input.problem.items[i].options.size());
}

TEST_CASE("estimates that are wrong by a factor cost measurements, not the target") {
  SyntheticModel model(0.02);
  for (WidthItem &item : model.input.problem.items)
    for (WidthOption &option : item.options)
      option.loss *= 1000;
  WidthSearchOutcome outcome = searched(model);
  CHECK(outcome.isMet);
  CHECK(outcome.best.cost <= bestPossibleCost(model) * 1.02);
}

TEST_CASE("too few measurements to probe every group are refused, and never exceeded") {
  SyntheticModel model(0.02);
  for (uint32_t limit = 1; limit < kLayers; ++limit) {
    model.input.maxMeasurements = limit;
    model.probes = model.measures = 0;
    CHECK(searchWidths(model.input, model).status().code() == moert::StatusCode::kInvalidInput);
    CHECK(model.probes + model.measures <= limit);
  }
}

namespace {

/// Accepted by answers: what is lost of them grows with a power of the divergence, and their bound
/// has a share of its own.
struct AnswersModel : SyntheticModel {
  double power = 0.7, scale = 1, noise = 0.002, leastBound = 0;
  std::vector<double> looked; // Divergences.

  explicit AnswersModel(double target) : SyntheticModel(target) { input.firstBar = target; }

  double lossAt(double klNats) const { return scale * 0.02 * std::pow(klNats / 0.02, power); }
  Result<Measurement> measure(const WidthAssignment &assignment) override {
    ++measures;
    const double klNats = natsOf(assignment);
    return Measurement{klNats, klNats * 1.05, klNats};
  }
  Result<Measurement> accept(const WidthAssignment &assignment) override {
    ++accepts;
    const double klNats = natsOf(assignment), loss = lossAt(klNats);
    looked.push_back(klNats);
    return Measurement{loss, std::max(loss + noise, leastBound), klNats, leastBound};
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
        CHECK(outcome.acceptance.upperBound <= 0.02);
        CHECK(outcome.looks <= kMaxLooks);
        // Against a search that knows the divergence that just meets the target: three looks begin
        // at a bar that is up to 20 times that.
        const double most = 0.02 * std::pow(0.018 / 0.02 / scale, 1 / power);
        if (solver == SolverChoice::kAuto) {
          AnswersModel known(0.02);
          known.input.firstBar = most * 1.05;
          CHECK(outcome.best.cost <= searched(known).best.cost * 1.6);
        }
      }
}

TEST_CASE("answers of which nothing is lost let the divergence rise, by a bounded factor a look") {
  for (double loss : {0.0, -0.5}) {
    AnswersModel model(0.02);
    model.scale = loss;
    model.noise = 0;
    WidthSearchOutcome outcome = searched(model);
    REQUIRE(outcome.isMet);
    REQUIRE(model.looked.size() == kMaxLooks);
    CHECK(model.looked[1] > model.looked[0] * 2);
    for (uint32_t look = 0; look < kMaxLooks; ++look)
      CHECK(model.looked[look] * 1.05 <= 0.02 * std::pow(4, look));
  }
}

TEST_CASE("too few answers to show the target end the search at its first look") {
  AnswersModel model(0.02);
  model.leastBound = 0.03;
  WidthSearchOutcome outcome = searched(model);
  CHECK_FALSE(outcome.isMet);
  CHECK(outcome.looks == 1);
  CHECK(outcome.acceptance.leastBound == 0.03);
}

TEST_CASE("where no divergence keeps enough answers, the least is looked at before giving up") {
  AnswersModel model(0.02);
  model.noise = 0.05;
  WidthSearchOutcome outcome = searched(model);
  CHECK_FALSE(outcome.isMet);
  CHECK(outcome.looks <= kMaxLooks);
  CHECK(model.looked.back() < 0.001);
}

TEST_CASE("a first bar that only the most bits are near is left by looking") {
  AnswersModel model(0.02);
  model.input.firstBar = 1e-6;
  model.scale = 0.1;
  CHECK(searched(model).isMet);
}

TEST_CASE("a first bar of nothing is refused") {
  AnswersModel model(0.02);
  for (double bar : {0.0, -1.0, std::nan("")}) {
    model.input.firstBar = bar;
    CHECK(searchWidths(model.input, model).status().code() == moert::StatusCode::kInvalidInput);
  }
}

TEST_CASE("one width for all follows a bar that has risen") {
  AnswersModel model(0.02);
  model.input.solver = SolverChoice::kUniform;
  model.baseNats = 0.0005;
  model.input.firstBar = 0.0007;
  model.scale = 0;
  model.noise = 0;
  WidthSearchOutcome outcome = searched(model);
  REQUIRE(outcome.isMet);
  CHECK(outcome.looks > 1);
  CHECK(model.looked.back() > model.looked.front());
}

TEST_CASE("inputs that contradict themselves are refused") {
  SyntheticModel model(0.02);
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

  explicit EvenTimes(const SyntheticModel &model) : problem(model.input.problem) {
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
    SyntheticModel model(target);
    EvenTimes times(model);
    model.input.times = &times;
    model.input.maxMeasurements = 48;
    WidthSearchOutcome outcome = searched(model);
    REQUIRE(outcome.isMet);
    CHECK(outcome.isTimed);
    CHECK(times.begun == 1);
    CHECK(outcome.acceptance.upperBound <= target);
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
  SyntheticModel model(0.05);
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
  SyntheticModel plain(0.05), model(0.05);
  EvenTimes times(model);
  times.isHeld = false;
  model.input.times = &times;
  const WidthSearchOutcome expected = searched(plain), outcome = searched(model);
  CHECK_FALSE(outcome.isTimed);
  CHECK_FALSE(outcome.fewestBytes);
  CHECK(outcome.best.assignment == expected.best.assignment);
  CHECK(outcome.measurements == expected.measurements);
}
