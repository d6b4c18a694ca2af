// What the compiler measured of the artifact's accuracy.
#include "compiler/inspection/InspectSections.h"
#include "compiler/report/ReportSections.h"
#include "runtime/base/Checksum.h"
#include "runtime/format/Quality.h"

using namespace moert;

namespace moec {

static Unit unitOf(const std::string &metric) {
  return metric == "kl" ? Unit::kNats : Unit::kFraction;
}

static Value knownValue(const std::optional<double> &value) {
  return value ? Value(*value) : Value();
}

/// The facts of a quantile, whose ids begin with `prefix`.
static void addQuantile(const std::optional<QuantileBound> &quantile, const std::string &prefix,
                        Unit unit, const Source &source, Section &section) {
  if (!quantile)
    return;
  section.facts.push_back({prefix + "_fraction",
                           "fraction of units that loses at most as much",
                           quantile->fraction,
                           Unit::kFraction,
                           {Origin::kStated, "artifact: options of the compilation"}});
  if (quantile->target)
    section.facts.push_back({prefix + "_target",
                             "allowed loss of each of these units",
                             *quantile->target,
                             unit,
                             {Origin::kStated, "artifact: options of the compilation"}});
  section.facts.push_back({prefix + "_upper_bound",
                           "upper bound of the loss of each, at the same confidence",
                           quantile->upperBound, unit, source});
}

static Table textsTable(const Measured &measured, const Source &source) {
  const Unit unit = unitOf(measured.metric);
  Table table{
      .id = "accuracy.texts",
      .title = "Texts",
      .columns = {{"text", "text"},
                  {"use", "used for"},
                  {"bytes", "size", Unit::kBytes, source},
                  {"samples", measured.isOnItems() ? "items" : "windows", Unit::kCount, source},
                  {"loss", "loss on it alone", unit, source},
                  {"units", "units", Unit::kCount, source},
                  {"unit_spread", "standard deviation of a unit", unit, source},
                  {"hash", "XXH3-64"}}};
  for (const MeasuredText &text : measured.calibrationTexts)
    table.rows.push_back(
        {text.name, "calibration, search", text.bytes, {}, {}, {}, {}, formatChecksum(text.hash)});
  for (const MeasuredText &text : measured.acceptanceTexts)
    table.rows.push_back({text.name, "acceptance", text.bytes, uint64_t(text.windows.size()),
                          knownValue(text.loss), text.loss ? Value(text.units) : Value(),
                          knownValue(text.unitSpread), formatChecksum(text.hash)});
  return table;
}

/// What the plan's miss rule does to the output, on top of the widths.
static void addMissRule(const Plan &plan, const RunRecord &run,
                        const std::optional<Measured> &measured, Section &section) {
  if (!plan.miss.isLossy()) {
    section.sentences.push_back("The plan waits for every expert that the router asks for, so that "
                                "no budget changes the output and a miss adds no loss.");
    return;
  }
  const Source stated{Origin::kStated, "artifact: plan"};
  section.facts.push_back(
      {"accuracy.miss_rule", "miss rule", missRuleText(plan.miss), Unit::kNone, stated});
  const bool isOfPrompts = plan.miss.changesPrompts();
  const LayerTotals totals = (isOfPrompts ? run.prefill : run.decode).sum();
  const double asked = double(totals.hits + totals.misses + totals.skipped + totals.substituted);
  section.facts.push_back(
      {"accuracy.changed", "experts that the miss rule changed in this run",
       asked > 0 ? Value(double(totals.changed()) / asked) : Value(), Unit::kFraction,
       measuredIn(isOfPrompts ? "totals.prefill, lowered"
                              : "totals.decode, lowered, skipped and substituted")});
  if (!plan.loss) {
    section.sentences.push_back(strCat("The plan's miss rule ", missRuleText(plan.miss),
                                       " changes the output; what it loses was not measured."));
    return;
  }
  const Source source{Origin::kMeasured, isOfPrompts
                                             ? "artifact: loss of the plan, reading prompts"
                                             : "artifact: loss of the plan, while it decodes"};
  const Unit unit = unitOf(plan.loss->metric);
  const bool isComparable = measured && measured->metric == plan.loss->metric;
  section.facts.push_back({"accuracy.plan_loss",
                           strCat("loss in ", plan.loss->metric, " with the miss rule"),
                           plan.loss->loss, unit, source});
  section.facts.push_back(
      {"accuracy.plan_upper_bound", "its upper bound", plan.loss->upperBound, unit, source});
  addQuantile(plan.loss->quantile, "accuracy.plan_quantile", unit, source, section);
  if (isComparable)
    section.facts.push_back({"accuracy.miss_loss",
                             "of it by misses",
                             plan.loss->loss - measured->loss,
                             unit,
                             {Origin::kDerived, "the plan's loss minus that of the widths, each on "
                                                "its own text"}});
  section.sentences.push_back(strCat("With the miss rule ", missRuleText(plan.miss),
                                     " the loss in ", plan.loss->metric, " is ",
                                     boundedLossText(*plan.loss), "."));
}

/// Every width assignment that was measured, and what this run would do with it.
static void addCandidates(const RunFindings &findings, const Measured &measured, Section &section) {
  if (findings.whatIf.candidates.empty())
    return;
  const Source source{Origin::kMeasured, "artifact: measured on the search's text"};
  Source predicted = simulatedFor(findings.simulation);
  predicted.origin = Origin::kAssumed;
  predicted.from += "; records of that size are computed in proportion to their bytes";
  const Unit unit = unitOf(measured.metric);
  Table table{
      .id = "accuracy.candidates",
      .title = "Every width assignment that the search measured as a whole",
      .columns = {{"mark", ""},
                  {"solver", "proposed by"},
                  {"expert_bytes", "experts", Unit::kBytes, source},
                  {"resident_bytes", "resident", Unit::kBytes, source},
                  {"bytes", "all weights", Unit::kBytes, source},
                  {"loss", strCat("loss in ", measured.metric), unit, source},
                  {"expected_bound", "expected bound", unit, source},
                  {"kl", "KL", Unit::kNats, source},
                  {"token_ns",
                   "forecast time",
                   Unit::kNs,
                   {Origin::kDerived, "artifact: forecast of the search"}},
                  {"tokens_per_second", "predicted in this run", Unit::kTokensPerSecond, predicted},
                  {"gain", "gain", Unit::kFraction, predicted}}};
  for (const CandidatePoint &point : findings.whatIf.candidates) {
    const MeasuredCandidate &each = measured.candidates[point.candidate];
    table.rows.push_back(
        {strCat(each.isChosen ? "chosen" : "", each.isChosen && point.isBest ? ", " : "",
                point.isBest ? "best" : ""),
         each.solver, each.expertBytes, each.residentBytes, point.bytes, knownValue(each.loss),
         knownValue(each.expectedBound), each.klNats, knownValue(each.tokenNs),
         point.predicted ? Value(point.predicted->tokensPerSecond) : Value(),
         point.predicted ? Value(point.predicted->gain) : Value()});
  }
  table.note =
      "Losses here are on the search's text, the one above on the acceptance texts. Best: no "
      "other one loses less in as few bytes. Chosen: of those expected to keep the allowed "
      "loss, the cheapest, in forecast time or else bytes, but for small differences, that "
      "the acceptance texts were asked about. The predicted speed has experts of that size "
      "in what its resident weights leave of this run's memory, which are computed as long "
      "as this run's; \"-\": they leave no room.";
  section.tables.push_back(std::move(table));
  const bool hasLoss = measured.candidates.front().loss.has_value();
  section.pictures.push_back({.id = "accuracy.candidates.picture",
                              .title = "Loss by size of the weights",
                              .description =
                                  "A point per measured width assignment; the line joins "
                                  "the best ones, the dashed one is the allowed loss.",
                              .specification = "scatter",
                              .table = "accuracy.candidates",
                              .x = "bytes",
                              .y = hasLoss ? "loss" : "kl",
                              .series = "mark",
                              .limit = hasLoss ? "accuracy.target" : ""});
}

static void addMeasured(const Measured &measured, Section &section) {
  const Source source{Origin::kMeasured, "artifact: measured"};
  const Unit unit = unitOf(measured.metric);
  const bool isOfMean = measured.target > 0; // Otherwise only a quantile was accepted.
  const auto &quantile = measured.quantile;
  const bool isMet = (!isOfMean || measured.upperBound <= measured.target) &&
                     !(quantile && quantile->target && quantile->upperBound > *quantile->target);
  section.sentences.push_back(strCat("Accuracy ", isMet ? "held" : "did not hold",
                                     ": on the acceptance texts a loss in ", measured.metric,
                                     " against the checkpoint of ", boundedLossText(measured),
                                     " was measured; target: ", targetText(measured), "."));
  const Source stated{Origin::kStated, "artifact: options of the compilation"};
  const auto put = [&](const char *id, const char *label, Value value, Unit of,
                       const Source &from) {
    section.facts.push_back({strCat("accuracy.", id), label, std::move(value), of, from});
  };
  const auto add = [&](const char *id, const char *label, Value value, Unit of) {
    put(id, label, std::move(value), of, source);
  };
  put("metric", "metric", measured.metric, Unit::kNone, stated);
  put("target", "allowed loss", isOfMean ? Value(measured.target) : Value(), unit, stated);
  add("loss", "loss on the acceptance texts", measured.loss, unit);
  add("upper_bound", "its upper bound", measured.upperBound, unit);
  put("confidence", "confidence of the bound", measured.confidence, Unit::kFraction,
      {Origin::kDerived, "artifact: measured, the part of the texts' 5% that this test took"});
  addQuantile(quantile, "accuracy.quantile", unit, source, section);
  add("units", "independent units: documents, windows of short ones together, or items",
      measured.units, Unit::kCount);
  add("documents", "documents", measured.documents, Unit::kCount);
  add("unit_spread", "standard deviation of a unit's loss", measured.unitSpread, unit);
  add("kl", "KL divergence from the checkpoint, per token", measured.klNats, Unit::kNats);
  add("top1", "tokens with the same most likely next token as the checkpoint",
      1 - measured.topDisagreement, Unit::kFraction);
  put("solver", "solver of the widths", measured.solver, Unit::kNone, stated);
  put("quantizer", "quantizer", measured.quantizer, Unit::kNone, stated);
  add("measurements", "measurements of the search, with probes and acceptance tests",
      measured.measurements, Unit::kCount);
  add("calibration_tokens", "calibration tokens", measured.calibrationTokens, Unit::kCount);
  section.tables.push_back(textsTable(measured, source));
}

Section accuracySection(const RunFindings &findings) {
  const ReportInputs &inputs = findings.simulation.inputs();
  Section section{.id = "accuracy", .title = "Accuracy"};
  if (inputs.artifact.measured) {
    addMeasured(*inputs.artifact.measured, section);
    addCandidates(findings, *inputs.artifact.measured, section);
  } else
    section.sentences.push_back(strCat("No loss was accepted: ", qualityText(inputs.artifact),
                                       ". moec compile --accuracy-loss bounds it."));
  const RunRecord &run = findings.simulation.run();
  addMissRule(planOf(inputs, run), run, inputs.artifact.measured, section);
  return section;
}

} // namespace moec
