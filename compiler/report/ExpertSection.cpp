// Experts: their widths, how often calibration and the run used them, and which use found them in
// memory.
#include "compiler/inspection/InspectSections.h"
#include "compiler/report/ReportSections.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

namespace {

/// Uses of one expert by decoded tokens.
struct ExpertUse {
  uint64_t used = 0, found = 0, calibrated = 0;
};

using LayerUses = std::vector<ExpertUse>;

/// The cache's content when a layer pass begins does not depend on time, but for prefetches, which
/// are left out.
Status countRun(const RunSimulation &simulation, std::vector<LayerUses> &uses) {
  const RoutingTrace &trace = simulation.routes();
  const size_t firstPass = simulation.firstDecodeStep() * trace.layerExperts.size();
  MOERT_ASSIGN_OR_RETURN(CacheReplay replay, CacheReplay::create(replayCacheOf(
                                                 simulation.problem(),
                                                 simulation.settingsFor(simulation.poolPages()))));
  for (size_t p = 0; p < trace.passes.size(); ++p) {
    const RoutingPass &pass = trace.passes[p];
    if (pass.beginsPrompt)
      replay.beginPrompt();
    const PassDemand demand = trace.demandOf(pass);
    for (uint32_t expert : demand.wanted)
      if (p >= firstPass) {
        ExpertUse &use = uses[pass.layer][expert];
        ++use.used;
        use.found += replay.state().at(replay.state().idOf(pass.layer, expert)).isHeld();
      }
    replay.runPass(pass.layer, demand);
  }
  return {};
}

void countCalibration(const PlanTrace &trace, std::vector<LayerUses> &uses) {
  for (size_t l = 0; l < uses.size(); ++l)
    for (uint16_t expert : trace.layers[l].chosen)
      ++uses[l][expert].calibrated;
}

struct LayerSums {
  double used = 0, found = 0, calibrated = 0;
};

LayerSums sumsOf(const LayerUses &uses) {
  LayerSums sums;
  for (const ExpertUse &use : uses) {
    sums.used += static_cast<double>(use.used);
    sums.found += static_cast<double>(use.found);
    sums.calibrated += static_cast<double>(use.calibrated);
  }
  return sums;
}

/// Half the sum of the differences of two distributions of choices: 0 if they are equal, 1 if they
/// have no expert in common.
double driftOf(const LayerUses &uses) {
  const LayerSums sums = sumsOf(uses);
  double drift = 0;
  for (const ExpertUse &use : uses)
    drift += std::abs(static_cast<double>(use.used) / sums.used -
                      static_cast<double>(use.calibrated) / sums.calibrated);
  return drift / 2;
}

/// What as many choices as the run made would differ by, drawn from the calibration's
/// distribution: the mean absolute deviation of a binomial count.
double chanceDriftOf(const LayerUses &uses) {
  const LayerSums sums = sumsOf(uses);
  constexpr double kMeanDeviation = 0.7979; // For a standard normal variable: sqrt(2 / pi).
  double drift = 0;
  for (const ExpertUse &use : uses) {
    const double p = static_cast<double>(use.calibrated) / sums.calibrated;
    drift += kMeanDeviation * std::sqrt(p * (1 - p) / sums.used);
  }
  return drift / 2;
}

} // namespace

static const Source kWidths{Origin::kMeasured, "artifact: slices of the experts"};
static const Source kUses{Origin::kMeasured, "run profile: routes of decoded tokens"};
static const Source kFound{Origin::kDerived, "replay of this run's cache, without prefetches"};
static const Source kCalibrated{Origin::kMeasured, "artifact: trace of the calibration text"};
static const Source kDrift{Origin::kDerived, "routes of the run and the calibration trace"};

static Table layersTable(const RunFindings &findings, const std::vector<LayerUses> &uses,
                         bool hasTrace) {
  Table table{.id = "experts.layers",
              .title = "Layers",
              .columns = {{"layer", "layer", Unit::kCount, kWidths},
                          {"experts", "experts", Unit::kCount, kWidths},
                          {"bits", "mean bits", Unit::kBits, kWidths},
                          {"used", "experts used", Unit::kCount, kUses},
                          {"hit_rate", "hits", Unit::kFraction, kFound},
                          {"drift", "drift from calibration", Unit::kFraction, kDrift},
                          {"chance_drift", "drift by chance", Unit::kFraction, kDrift}}};
  const std::vector<MoeLayer> &layers = findings.simulation.inputs().artifact.moeLayers;
  for (size_t l = 0; l < uses.size(); ++l) {
    double bits = 0;
    for (const Expert &expert : layers[l].experts)
      bits += widthOf(expert).meanBits();
    const LayerSums sums = sumsOf(uses[l]);
    const auto used =
        std::ranges::count_if(uses[l], [](const ExpertUse &use) { return use.used > 0; });
    const double experts = static_cast<double>(uses[l].size());
    table.rows.push_back({layers[l].layer, experts, bits / experts, double(used),
                          sums.used > 0 ? Value(sums.found / sums.used) : Value(),
                          hasTrace ? Value(driftOf(uses[l])) : Value(),
                          hasTrace ? Value(chanceDriftOf(uses[l])) : Value()});
  }
  table.note = "Drift: the fraction of this run's choices that the calibration text's distribution "
               "of choices does not explain. By chance: what a text like the calibration text "
               "would have with so few tokens.";
  return table;
}

static Table expertsTable(const RunFindings &findings, const std::vector<LayerUses> &uses,
                          bool hasTrace) {
  Table table{.id = "experts.all",
              .title = "Every expert",
              .columns = {{"layer", "layer", Unit::kCount, kWidths},
                          {"expert", "expert", Unit::kCount, kWidths},
                          {"bits", "mean bits", Unit::kBits, kWidths},
                          {"calibration", "tokens of the calibration text that use it",
                           Unit::kFraction, kCalibrated},
                          {"run", "tokens of this run that use it", Unit::kFraction, kUses},
                          {"drift", "difference", Unit::kFraction, kDrift},
                          {"hit_rate", "hits", Unit::kFraction, kFound}},
              .isDetail = true};
  const std::vector<MoeLayer> &layers = findings.simulation.inputs().artifact.moeLayers;
  for (size_t l = 0; l < uses.size(); ++l) {
    const LayerSums sums = sumsOf(uses[l]);
    const double topK = layers[l].topK;
    for (size_t e = 0; e < uses[l].size(); ++e) {
      const ExpertUse &use = uses[l][e];
      const double run = topK * double(use.used) / std::max(1.0, sums.used);
      const double calibrated = topK * double(use.calibrated) / std::max(1.0, sums.calibrated);
      table.rows.push_back({layers[l].layer, uint64_t(e), widthOf(layers[l].experts[e]).meanBits(),
                            hasTrace ? Value(calibrated) : Value(), run,
                            hasTrace ? Value(run - calibrated) : Value(),
                            use.used > 0 ? Value(double(use.found) / double(use.used)) : Value()});
    }
  }
  return table;
}

/// Colours show nothing else.
static bool hasDifferentValues(const Table &table, std::string_view columnId) {
  const auto column = std::ranges::find(table.columns, columnId, &Column::id);
  const size_t index = static_cast<size_t>(column - table.columns.begin());
  const Value *first = nullptr;
  for (const std::vector<Value> &row : table.rows) {
    if (!row[index].isNumber())
      continue;
    first = first ? first : &row[index];
    if (!(row[index] == *first))
      return true;
  }
  return false;
}

static void addHeatMaps(Section &section, bool hasTrace) {
  const auto add = [&](const char *column, const char *title, const char *description,
                       const char *specification = "heat") {
    if (!hasDifferentValues(*findTable(section, "experts.all"), column))
      return;
    section.pictures.push_back({.id = strCat("experts.", column, ".picture"),
                                .title = title,
                                .description = description,
                                .specification = specification,
                                .table = "experts.all",
                                .x = "expert",
                                .y = "layer",
                                .series = column});
  };
  add("bits", "Bits",
      "A cell per expert; layers from top to bottom; a stronger colour has more bits.");
  if (hasTrace)
    add("calibration", "Use by the calibration text",
        "A cell per expert; a stronger colour is used by more tokens.");
  add("run", "Use by this run", "A cell per expert; a stronger colour is used by more tokens.");
  if (hasTrace)
    add("drift", "Difference between the two",
        "A cell per expert: the run's use minus the calibration text's; blue where this run "
        "uses it more, orange where the calibration text does.",
        "difference");
  add("hit_rate", "Hits",
      "A cell per expert; a stronger colour was found in memory more often; blank: not used.");
}

static void addComparison(const RunSimulation &simulation, const TextComparison &text,
                          Section &section) {
  Source source = simulatedFor(simulation);
  source.from += strCat("; ", text.tokens, " decoded tokens of the run, and of ", text.parts,
                        " parts of the calibration text that no plan was decided on");
  const auto add = [&](const char *id, const char *label, double value, Unit unit) {
    section.facts.push_back({strCat("experts.", id), label, value, unit, source});
  };
  add("run_token_ns", "a token of this text, replayed from the start", text.run.tokenNs, Unit::kNs);
  add("calibration_token_ns", "a token of the calibration text, replayed likewise",
      text.calibration.tokenNs, Unit::kNs);
  add("run_hit_rate", "hits of this text, replayed", text.run.hitRate, Unit::kFraction);
  add("calibration_hit_rate", "hits of the calibration text, replayed likewise",
      text.calibration.hitRate, Unit::kFraction);
}

static std::string comparisonText(const TextComparison &text) {
  return strCat(
      ". Replayed with this run's disk, plan and start, a token of the calibration text takes ",
      shownText(text.calibration.tokenNs, Unit::kNs), " (hits ",
      shownText(text.calibration.hitRate, Unit::kFraction), "), one of this run ",
      shownText(text.run.tokenNs, Unit::kNs), " (hits ",
      shownText(text.run.hitRate, Unit::kFraction), "), each the mean of ", text.tokens,
      " decoded tokens: ", differenceText(text));
}

Result<Section> expertSection(const RunFindings &findings) {
  Section section{.id = "experts", .title = "Experts"};
  const ReportInputs &inputs = findings.simulation.inputs();
  std::vector<LayerUses> uses;
  for (const MoeLayer &layer : inputs.artifact.moeLayers)
    uses.emplace_back(layer.experts.size());
  MOERT_RETURN_IF_ERROR(countRun(findings.simulation, uses));
  if (inputs.trace)
    countCalibration(*inputs.trace, uses);
  const bool hasTrace = inputs.trace.has_value();
  if (hasTrace) {
    double drift = 0, chance = 0;
    for (const LayerUses &layer : uses) {
      drift += driftOf(layer) / static_cast<double>(uses.size());
      chance += chanceDriftOf(layer) / static_cast<double>(uses.size());
    }
    section.facts.push_back({"experts.drift", "drift of this text from the calibration text", drift,
                             Unit::kFraction, kDrift});
    section.facts.push_back(
        {"experts.chance_drift", "drift by chance", chance, Unit::kFraction, kDrift});
    std::string cost;
    if (findings.diagnosis.text) {
      const TextComparison &text = *findings.diagnosis.text;
      cost = comparisonText(text);
      addComparison(findings.simulation, text, section);
    }
    section.sentences.push_back(
        strCat("This run's choices of experts differ from the calibration text's by ",
               shownText(drift, Unit::kFraction), ", by chance it would be ",
               shownText(chance, Unit::kFraction), cost, "."));
  } else {
    section.sentences.push_back("The artifact has no trace of calibration text to compare with.");
  }
  section.tables.push_back(layersTable(findings, uses, hasTrace));
  section.tables.push_back(expertsTable(findings, uses, hasTrace));
  addHeatMaps(section, hasTrace);
  return section;
}

} // namespace moec
