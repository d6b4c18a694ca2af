// The verdict and what to change: the first two sections.
#include "compiler/inspection/InspectSections.h"
#include "compiler/report/ReportSections.h"
#include "runtime/base/Size.h"

#include <algorithm>

using namespace moert;

namespace moec {

Source measuredIn(const char *keys) {
  return {Origin::kMeasured, strCat("run profile: ", keys)};
}

Source simulatedFor(const RunSimulation &simulation) {
  return {
      worseOf(Origin::kDerived, simulation.disk().origin),
      strCat("replay of this run's routes with its compute times; disk: ", simulation.disk().text)};
}

static std::string bestChangeText(const RunFindings &findings) {
  const std::vector<Advice> &advice = findings.whatIf.advice;
  if (advice.empty())
    return strCat("Nothing helps: no budget, disk, width or plan that was simulated gains ",
                  shownText(kLeastGain, Unit::kFraction), ".");
  const Predicted &predicted = advice[0].predicted;
  return strCat("Best change: ", advice[0].change, "; predicted ",
                shownText(predicted.tokensPerSecond, Unit::kTokensPerSecond), ", ",
                fasterText(1 + predicted.gain), ".");
}

static Fact commandFact(const char *id, const std::string &label, const Advice &advice) {
  return {id, label, advice.command, Unit::kCommand, {Origin::kDerived, "run profile"}};
}

//===-- The verdict ---------------------------------------------------------------------------===//

static void addSpeeds(const RunFindings &findings, Section &section) {
  const RunSimulation &simulation = findings.simulation;
  const Diagnosis &diagnosis = findings.diagnosis;
  const double speed = measuredTokensPerSecond(simulation.run());
  section.facts.push_back({"verdict.tokens_per_second", "speed", speed, Unit::kTokensPerSecond,
                           measuredIn("totals.decode, steps and wall_ns")});
  const Plan &plan = planOf(simulation.inputs(), simulation.run());
  if (plan.forecast)
    section.facts.push_back({"verdict.forecast_tokens_per_second",
                             "the plan's forecast, on the calibration text",
                             1e9 / plan.forecast->tokenNs,
                             Unit::kTokensPerSecond,
                             {worseOf(Origin::kDerived, plan.forecast->origin),
                              strCat("artifact: forecast for ", plan.forecast->device)}});
  section.facts.push_back({"verdict.bound_tokens_per_second",
                           "bound at this memory and disk",
                           1e9 / diagnosis.boundNs,
                           Unit::kTokensPerSecond,
                           {simulatedFor(simulation).origin,
                            "computing alone, or Belady's bytes at the disk's best rate"}});
  section.facts.push_back({"verdict.token_ns", "a token takes", diagnosis.tokenNs, Unit::kNs,
                           measuredIn("totals.decode, wall_ns")});
  section.facts.push_back({"verdict.wait_fraction", "of it waiting for reads",
                           diagnosis.waitNs / diagnosis.tokenNs, Unit::kFraction,
                           measuredIn("totals.decode, wait_ns and wall_ns")});
  section.facts.push_back({"verdict.bytes_per_token", "read per token",
                           measuredBytesPerToken(simulation.run()), Unit::kBytes,
                           measuredIn("totals.decode, bytes_read")});
  section.facts.push_back({"verdict.belady_bytes_per_token",
                           "the same by a perfect cache of this size",
                           diagnosis.leastBytes,
                           Unit::kBytes,
                           {Origin::kDerived, "Belady's rule on this run's routes"}});
  section.facts.push_back({"verdict.limit", "limited by",
                           std::string(limitName(diagnosis.causes.front().limit)), Unit::kNone,
                           simulatedFor(simulation)});
}

static Table partsTable(const Diagnosis &diagnosis) {
  Table table{
      .id = "verdict.parts",
      .title = "A decoded token's time",
      .columns = {{"part", "part"},
                  {"ns", "time", Unit::kNs, measuredIn("totals.decode, part_ns and wait_ns")},
                  {"fraction", "of a token", Unit::kFraction,
                   measuredIn("totals.decode, part_ns and wait_ns")}}};
  for (const TimePart &part : diagnosis.parts)
    table.rows.push_back({part.name, part.ns, part.ns / diagnosis.tokenNs});
  return table;
}

static Table causesTable(const RunFindings &findings) {
  Table table{
      .id = "verdict.causes",
      .title = "Causes, the most expensive first",
      .columns = {{"limit", "limited by"},
                  {"cost_ns", "costs per token", Unit::kNs, simulatedFor(findings.simulation)},
                  {"sentence", "in words"}}};
  for (const Cause &cause : findings.diagnosis.causes)
    table.rows.push_back({std::string(limitName(cause.limit)), cause.costNs, cause.sentence});
  if (table.rows.size() > 1)
    table.note = "Each cost is that of one cause alone: together they overlap and do not add up. "
                 "Of two that differ by less than a tenth, the first is what the plan did not "
                 "expect.";
  return table;
}

Section verdictSection(const RunFindings &findings) {
  Section section{.id = "verdict", .title = "Verdict"};
  section.sentences = {findings.diagnosis.causes.front().sentence, bestChangeText(findings)};
  const std::vector<Advice> &advice = findings.whatIf.advice;
  if (!advice.empty() && !advice[0].command.empty())
    section.facts.push_back(commandFact("verdict.command", "To try it", advice[0]));
  addSpeeds(findings, section);
  section.tables.push_back(partsTable(findings.diagnosis));
  section.tables.push_back(causesTable(findings));
  section.pictures.push_back({.id = "verdict.parts.picture",
                              .title = "A decoded token's time",
                              .description = "One bar per part of a token's time.",
                              .specification = "bars",
                              .table = "verdict.parts",
                              .x = "ns",
                              .y = "part"});
  return section;
}

//===-- What to change ------------------------------------------------------------------------===//

constexpr size_t kMostAdvice = 3;
constexpr const char *kCommandIds[kMostAdvice] = {"change.command.1", "change.command.2",
                                                  "change.command.3"};

/// The knee, where the run has much more memory than it needs.
static void addSmallerBudget(const RunFindings &findings, Section &section) {
  const BudgetPoint &knee = findings.whatIf.budgets[findings.whatIf.knee];
  const uint64_t taken = findings.simulation.run().facts.accountedBytes;
  constexpr double kMuchLess = 0.9;
  if (double(knee.memoryBytes) > kMuchLess * double(taken) || knee.predicted.gain < kNearBest - 1)
    return;
  section.sentences.push_back(strCat(
      "Less memory would do: ", formatBytes(knee.memoryBytes), " instead of ", formatBytes(taken),
      "; predicted ", shownText(knee.predicted.tokensPerSecond, Unit::kTokensPerSecond), ", ",
      fasterText(1 + knee.predicted.gain), "."));
}

static void addAdvice(const RunFindings &findings, Section &section) {
  const std::vector<Advice> &advice = findings.whatIf.advice;
  Table table{.id = "change.advice",
              .title = "The best changes; what needs no other hardware comes first",
              .columns = {{"change", "change"},
                          {"tokens_per_second", "predicted", Unit::kTokensPerSecond,
                           simulatedFor(findings.simulation)},
                          {"gain", "gain", Unit::kFraction, simulatedFor(findings.simulation)},
                          {"origin", "origin"},
                          {"basis", "computed from"}}};
  for (size_t i = 0; i < std::min(kMostAdvice, advice.size()); ++i) {
    table.rows.push_back({advice[i].change, advice[i].predicted.tokensPerSecond,
                          advice[i].predicted.gain, std::string(nameOf(advice[i].origin)),
                          advice[i].basis});
    if (!advice[i].command.empty())
      section.facts.push_back(commandFact(kCommandIds[i], advice[i].change, advice[i]));
  }
  addSmallerBudget(findings, section);
  const Plan &plan = planOf(findings.simulation.inputs(), findings.simulation.run());
  if (findings.simulation.appliesMissRule())
    section.sentences.push_back(strCat("Predictions are for the calibration text under the plan's "
                                       "miss rule ",
                                       missRuleText(plan.miss),
                                       ", which decides by scores that a run does not record."));
  else if (findings.simulation.losesDecoding())
    section.sentences.push_back(strCat("Predictions are for waiting for every expert: the plan's "
                                       "miss rule ",
                                       missRuleText(plan.miss),
                                       " decides by scores of the routers, for which the artifact "
                                       "has no calibration trace, or one without scores."));
  if (!findings.whatIf.unsearched.empty())
    section.sentences.push_back(
        strCat("Other plans were not searched: ", findings.whatIf.unsearched, "."));
  section.tables.push_back(std::move(table));
}

/// Budgets whose pools differ by less than this are one row, which is the run's.
constexpr double kSamePool = 0.01;

static bool isNear(uint64_t memory, uint64_t other, uint64_t poolBytes) {
  return std::abs(double(memory) - double(other)) < kSamePool * double(poolBytes);
}

static Table budgetTable(const RunFindings &findings) {
  const Source source = simulatedFor(findings.simulation);
  const RunFacts &facts = findings.simulation.run().facts;
  Table table{.id = "change.budgets",
              .title = "Predicted speed by memory budget",
              .columns = {{"memory_bytes", "memory", Unit::kBytes, source},
                          {"mark", ""},
                          {"experts", "experts that fit", Unit::kFraction, source},
                          {"tokens_per_second", "predicted", Unit::kTokensPerSecond, source},
                          {"gain", "gain", Unit::kFraction, source},
                          {"hit_rate", "hits", Unit::kFraction, source},
                          {"bytes_read", "read per token", Unit::kBytes, source}}};
  const auto add = [&](double memory, double fraction, const Predicted &predicted,
                       std::string mark) {
    table.rows.push_back({memory, std::move(mark), fraction, predicted.tokensPerSecond,
                          predicted.gain, predicted.simulated.hitRate,
                          predicted.simulated.bytesRead});
  };
  const uint64_t own = facts.poolPages * findings.simulation.inputs().artifact.pageBytes;
  const double ownFraction =
      std::min(1.0, double(own) / double(fullBytesOf(findings.simulation.inputs().artifact)));
  const uint64_t ownMemory = fixedBytes(findings.simulation) + own;
  bool hasOwn = false;
  const auto addOwn = [&](const char *knee = "") {
    hasOwn = true;
    add(double(ownMemory), ownFraction,
        {measuredTokensPerSecond(findings.simulation.run()), 0, findings.simulation.base()},
        strCat("this run", knee));
  };
  for (size_t i = 0; i < findings.whatIf.budgets.size(); ++i) {
    const BudgetPoint &point = findings.whatIf.budgets[i];
    if (isNear(point.memoryBytes, ownMemory, own)) {
      addOwn(i == findings.whatIf.knee ? ", knee" : "");
      continue;
    }
    if (!hasOwn && point.memoryBytes >= ownMemory)
      addOwn();
    const bool isBeyond = point.memoryBytes > facts.availableBytes;
    add(double(point.memoryBytes), point.expertFraction, point.predicted,
        i == findings.whatIf.knee ? (isBeyond ? "knee; more than this machine has" : "knee")
        : isBeyond                ? "more than this machine has"
                                  : "");
  }
  if (!hasOwn)
    addOwn();
  table.note = strCat("Knee: the smallest budget with ", shownText(kNearBest, Unit::kFraction),
                      " of the best speed.");
  return table;
}

static Table diskTable(const RunFindings &findings) {
  const Source source = simulatedFor(findings.simulation);
  Table table{.id = "change.disks",
              .title = "Predicted speed by disk",
              .columns = {{"rate", "rate", Unit::kBytesPerSecond, source},
                          {"rate_factor", "rate, times this run's", Unit::kRatio, source},
                          {"latency_factor", "latency, times this run's", Unit::kRatio, source},
                          {"tokens_per_second", "predicted", Unit::kTokensPerSecond, source},
                          {"gain", "gain", Unit::kFraction, source}}};
  for (const DiskPoint &point : findings.whatIf.disks)
    table.rows.push_back({point.bytesPerSecond, point.rateFactor, point.latencyFactor,
                          point.predicted.tokensPerSecond, point.predicted.gain});
  return table;
}

static Table widthTable(const RunFindings &findings) {
  Source source = simulatedFor(findings.simulation);
  source.origin = Origin::kAssumed;
  source.from += "; smaller records are computed in proportion to their bytes";
  Table table{.id = "change.widths",
              .title = "Predicted speed with fewer bits",
              .columns = {{"bits", "bits of experts", Unit::kBits, source},
                          {"bytes_factor", "expert bytes, relative", Unit::kRatio, source},
                          {"tokens_per_second", "predicted", Unit::kTokensPerSecond, source},
                          {"gain", "gain", Unit::kFraction, source}}};
  for (const WidthPoint &point : findings.whatIf.widths)
    table.rows.push_back(
        {point.bits, point.bytesFactor, point.predicted.tokensPerSecond, point.predicted.gain});
  table.note = "Their loss is not known: moec compile --accuracy-loss measures it.";
  return table;
}

Section changeSection(const RunFindings &findings) {
  Section section{.id = "change", .title = "What to change"};
  addAdvice(findings, section);
  const FittedDisk &disk = findings.simulation.disk();
  section.facts.push_back({"change.disk_rate",
                           "rate of the disk in this run, fitted to its waits",
                           disk.isFitted ? Value(disk.bytesPerSecond) : Value(),
                           Unit::kBytesPerSecond,
                           {disk.origin, disk.text}});
  if (disk.profiledBytesPerSecond > 0)
    section.facts.push_back({"change.profiled_disk_rate",
                             "the same by the device profile",
                             disk.profiledBytesPerSecond,
                             Unit::kBytesPerSecond,
                             {Origin::kMeasured, findings.simulation.inputs().device->name}});
  section.facts.push_back({"change.available_bytes", "memory that the run could have taken",
                           findings.simulation.run().facts.availableBytes, Unit::kBytes,
                           measuredIn("available_bytes")});
  section.tables.push_back(budgetTable(findings));
  section.tables.push_back(diskTable(findings));
  if (!findings.whatIf.widths.empty())
    section.tables.push_back(widthTable(findings));
  section.pictures.push_back({.id = "change.budgets.picture",
                              .title = "Predicted speed by memory budget",
                              .description =
                                  "A line over memory; marks: this run, and the knee, the smallest "
                                  "budget near the best speed.",
                              .specification = "line",
                              .table = "change.budgets",
                              .x = "memory_bytes",
                              .y = "tokens_per_second",
                              .series = "mark"});
  section.pictures.push_back({.id = "change.disks.picture",
                              .title = "Predicted speed by disk",
                              .description = "A line per latency over the disk's rate.",
                              .specification = "lines",
                              .table = "change.disks",
                              .x = "rate",
                              .y = "tokens_per_second",
                              .series = "latency_factor",
                              .isLogarithmic = true});
  return section;
}

} // namespace moec
