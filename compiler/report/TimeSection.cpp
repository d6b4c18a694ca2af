// Time: tokens one after the other, the slow ones explained, one token layer by layer, the prompt,
// the disk and the memory.
#include "compiler/inspection/InspectSections.h"
#include "compiler/report/ReportSections.h"

#include <algorithm>
#include <numeric>

using namespace moert;

namespace moec {

/// Rows of the table of tokens, which is thinned to them.
constexpr size_t kMostTokenRows = 500;

static std::vector<const RecordedStep *> stepsOf(const RunRecord &run, RunPhase phase) {
  std::vector<const RecordedStep *> steps;
  for (const RecordedStep &step : run.steps)
    if (step.step.phase == phase)
      steps.push_back(&step);
  return steps;
}

/// By wall time, ascending; of equal ones the earlier first.
static std::vector<const RecordedStep *> byTime(std::vector<const RecordedStep *> steps) {
  std::ranges::stable_sort(steps, {}, [](const RecordedStep *step) { return step->step.wallNs; });
  return steps;
}

static double nsOf(const RecordedStep &step) {
  return static_cast<double>(step.step.wallNs);
}

/// Mean reads under way while any was.
static Value depthOf(const StepReads &reads) {
  return reads.busyNs > 0 ? Value(double(reads.underWayNs) / double(reads.busyNs)) : Value();
}

/// The budget that held at a token; budgets change before steps.
static uint64_t budgetAt(const RunFacts &facts, uint32_t token) {
  uint64_t bytes = facts.budgetBytes;
  for (const RunBudget &change : facts.budgets)
    if (change.firstToken <= token)
      bytes = change.budgetBytes;
  return bytes;
}

static Table tokensTable(const RunRecord &run, const std::vector<const RecordedStep *> &steps) {
  const size_t every = std::max<size_t>(1, (steps.size() + kMostTokenRows - 1) / kMostTokenRows);
  const Source source = measuredIn("steps, phase decode");
  Table table{.id = "time.tokens",
              .title = "Decoded tokens",
              .columns = {{"token", "token", Unit::kCount, source},
                          {"begin_ns", "begins at", Unit::kNs, source},
                          {"ns", "time", Unit::kNs, source},
                          {"wait_ns", "waiting for reads", Unit::kNs, source},
                          {"bytes_read", "read", Unit::kBytes, source},
                          {"bytes_per_second", "rate of reading", Unit::kBytesPerSecond, source},
                          {"queue_depth", "reads under way", Unit::kCount, source},
                          {"resident_bytes", "memory of the process", Unit::kBytes, source},
                          {"budget_bytes", "budget", Unit::kBytes,
                           measuredIn("budget_bytes and budget_changes")}},
              .isDetail = true};
  for (size_t i = 0; i < steps.size(); i += every) {
    const RecordedStep &step = *steps[i];
    table.rows.push_back({step.step.firstToken, step.step.beginNs, nsOf(step), step.waitNs(),
                          step.bytesRead(),
                          nsOf(step) > 0 ? double(step.bytesRead()) / nsOf(step) * 1e9 : 0.0,
                          depthOf(step.step.reads),
                          step.step.residentBytes > 0 ? Value(step.step.residentBytes) : Value(),
                          budgetAt(run.facts, step.step.firstToken)});
  }
  const uint64_t all = every * run.keptEvery;
  if (all > 1)
    table.note = strCat("Thinned: every ", all, "th of ", run.decode.steps, " decode steps.");
  return table;
}

/// The layers in which a step took the most more than the mean of all steps.
static Table slowTable(const RunRecord &run, const std::vector<const RecordedStep *> &sorted) {
  constexpr size_t kShown = 8;
  const Source source = measuredIn("steps, wall_ns, compute_ns, wait_ns and misses");
  Table table{.id = "time.slow",
              .title = "The slowest tokens",
              .columns = {{"token", "token", Unit::kCount, source},
                          {"ns", "time", Unit::kNs, source},
                          {"layer", "slowest layer", Unit::kCount, source},
                          {"layer_ns", "time in it", Unit::kNs, source},
                          {"mean_ns", "in it in the mean", Unit::kNs, source},
                          {"layer_wait_ns", "of it waiting", Unit::kNs, source},
                          {"layer_misses", "reads on demand in it", Unit::kCount, source},
                          {"layer_bytes", "read in it", Unit::kBytes, source}}};
  const double steps = static_cast<double>(run.decode.steps);
  for (size_t i = 0; i < std::min(kShown, sorted.size()); ++i) {
    const RecordedStep &step = *sorted[sorted.size() - 1 - i];
    size_t worst = 0;
    double most = -1, mean = 0;
    for (size_t l = 0; l < step.layers.size(); ++l) {
      const LayerTotals &all = run.decode.layers[l];
      const double each = double(all.computeNs + all.waitNs) / steps;
      const double excess = double(step.layers[l].computeNs + step.layers[l].waitNs) - each;
      if (excess > most) {
        most = excess;
        worst = l;
        mean = each;
      }
    }
    const LayerProfile &layer = step.layers[worst];
    table.rows.push_back({step.step.firstToken, nsOf(step),
                          worst < run.layers ? Value(uint64_t(worst)) : Value("head"),
                          double(layer.computeNs + layer.waitNs), mean, layer.waitNs,
                          layer.misses - layer.useful, layer.bytesRead});
  }
  return table;
}

/// One token by layer: the profile has durations, and layers follow each other.
static Table tokenTable(const RecordedStep &step, uint32_t layers, const char *id,
                        const std::string &title) {
  const Source source = measuredIn("steps, compute_ns and wait_ns by layer");
  Table table{.id = id,
              .title = title,
              .columns = {{"layer", "layer", Unit::kNone, source},
                          {"begin_ns", "begins at", Unit::kNs, source},
                          {"compute_ns", "computing", Unit::kNs, source},
                          {"wait_ns", "waiting for reads", Unit::kNs, source},
                          {"hits", "hits", Unit::kCount, source},
                          {"prefetched", "prefetched", Unit::kCount, source},
                          {"demanded", "read on demand", Unit::kCount, source},
                          {"bytes_read", "read", Unit::kBytes, source}},
              .isDetail = true};
  double begin = 0;
  for (size_t l = 0; l < step.layers.size(); ++l) {
    const LayerProfile &layer = step.layers[l];
    table.rows.push_back({l < layers ? std::to_string(l) : "embedding, head", begin,
                          layer.computeNs, layer.waitNs, layer.hits, layer.useful,
                          layer.misses - layer.useful, layer.bytesRead});
    begin += double(layer.computeNs + layer.waitNs);
  }
  return table;
}

static Table promptTable(const std::vector<const RecordedStep *> &steps) {
  const Source source = measuredIn("steps, phase prefill");
  Table table{.id = "time.prompt",
              .title = "Prompt chunks",
              .columns = {{"first_token", "from token", Unit::kCount, source},
                          {"tokens", "tokens", Unit::kCount, source},
                          {"ns", "time", Unit::kNs, source},
                          {"wait_ns", "waiting for reads", Unit::kNs, source},
                          {"bytes_read", "read", Unit::kBytes, source},
                          {"tokens_per_second", "speed", Unit::kTokensPerSecond, source}}};
  for (const RecordedStep *step : steps)
    table.rows.push_back({step->step.firstToken, step->step.tokens, nsOf(*step), step->waitNs(),
                          step->bytesRead(),
                          nsOf(*step) > 0 ? step->step.tokens * 1e9 / nsOf(*step) : 0.0});
  return table;
}

/// Nothing for a run that read nothing, or the profile of an older program.
static void addReads(const PhaseTotals &decode, Section &section) {
  const StepReads &reads = decode.reads;
  if (reads.busyNs == 0)
    return;
  const Source source = measuredIn("totals.decode, reads, reading_ns and under_way_ns");
  section.facts.push_back({"time.busy_fraction",
                           "time with reads under way, or read and not taken yet",
                           double(reads.busyNs) / double(decode.wallNs), Unit::kFraction, source});
  section.facts.push_back(
      {"time.busy_rate", "bytes read per second of that time, less than the disk's rate",
       double(decode.sum().bytesRead) / double(reads.busyNs) * 1e9, Unit::kBytesPerSecond, source});
  section.facts.push_back(
      {"time.queue_depth", "reads under way in that time", depthOf(reads), Unit::kCount, source});
  section.facts.push_back({"time.reads", "reads per token",
                           double(reads.reads) / double(decode.steps), Unit::kCount, source});
}

static void addPictures(bool hasReads, Section &section) {
  const auto add = [&](const char *id, const char *title, const char *description,
                       const char *specification, const char *table, const char *x, const char *y) {
    section.pictures.push_back({.id = id,
                                .title = title,
                                .description = description,
                                .specification = specification,
                                .table = table,
                                .x = x,
                                .y = y});
  };
  add("time.tokens.picture", "Time of each token", "A point per decoded token.", "points",
      "time.tokens", "token", "ns");
  if (hasReads) {
    add("time.rate.picture", "Rate of reading", "A point per decoded token.", "points",
        "time.tokens", "token", "bytes_per_second");
    add("time.depth.picture", "Reads under way",
        "A point per decoded token: the mean while any was.", "points", "time.tokens", "token",
        "queue_depth");
  }
  add("time.memory.picture", "Memory of the process",
      "A point per decoded token; the dashed line is the budget.", "points", "time.tokens", "token",
      "resident_bytes");
  section.pictures.back().specification = "limit";
  section.pictures.back().series = "budget_bytes";
  add("time.median.picture", "The median token, layer by layer",
      "A bar per layer from its begin to its end: computing, then waiting for reads, layers one "
      "after "
      "the other.",
      "timeline", "time.median", "begin_ns", "layer");
  add("time.slowest.picture", "The slowest token, layer by layer",
      "A bar per layer from its begin to its end: computing, then waiting for reads, layers one "
      "after "
      "the other.",
      "timeline", "time.slowest", "begin_ns", "layer");
}

/// Why the peak is no sign of room for experts.
static void addMemoryText(const RunFindings &findings, Section &section) {
  const RunFacts &facts = findings.simulation.run().facts;
  constexpr double kAll = 0.95; // A run need not take its whole budget.
  if (facts.peakMemoryBytes == 0 || facts.peakMemoryBytes >= facts.accountedBytes ||
      double(facts.accountedBytes) < kAll * double(facts.budgetBytes))
    return;
  const uint64_t fixed = fixedBytes(findings.simulation);
  section.facts.push_back({"time.fixed_bytes", "of the budget, not for experts", fixed,
                           Unit::kBytes, measuredIn("accounted_bytes and pool_pages")});
  section.sentences.push_back(
      strCat("The peak of ", shownText(facts.peakMemoryBytes, Unit::kBytes),
             " does not mean that the budget of ", shownText(facts.budgetBytes, Unit::kBytes),
             " has room for experts: ", shownText(fixed, Unit::kBytes),
             " of it are kept for all else at its largest (the whole program, the KV cache of ",
             facts.contextTokens, " tokens, a reserve), used or not."));
}

Section timeSection(const RunFindings &findings) {
  Section section{.id = "time", .title = "Time"};
  const RunRecord &run = findings.simulation.run();
  const std::vector<const RecordedStep *> decode = stepsOf(run, RunPhase::kDecode);
  const std::vector<const RecordedStep *> prefill = stepsOf(run, RunPhase::kPrefill);
  const std::vector<const RecordedStep *> sorted = byTime(decode);
  const RecordedStep &median = *sorted[(sorted.size() - 1) / 2], &slowest = *sorted.back();
  const double slow = nsOf(*sorted[(sorted.size() - 1) * 95 / 100]);
  const Source steps = measuredIn("steps, wall_ns");
  section.facts.push_back({"time.median_ns", "median token", nsOf(median), Unit::kNs, steps});
  section.facts.push_back(
      {"time.slow_ns", "95% of the tokens take at most", slow, Unit::kNs, steps});
  section.facts.push_back({"time.slowest_ns", "slowest token", nsOf(slowest), Unit::kNs, steps});
  section.facts.push_back(
      {"time.prompt_tokens_per_second", "prompt",
       run.prefill.wallNs > 0 ? Value(double(run.prefill.tokens) * 1e9 / double(run.prefill.wallNs))
                              : Value(),
       Unit::kTokensPerSecond, measuredIn("totals.prefill")});
  section.facts.push_back({"time.disk_rate", "bytes read per second of decoding",
                           double(run.decode.sum().bytesRead) / double(run.decode.wallNs) * 1e9,
                           Unit::kBytesPerSecond, measuredIn("totals.decode")});
  addReads(run.decode, section);
  section.facts.push_back(
      {"time.threads", "threads", run.facts.threads, Unit::kCount, measuredIn("threads")});
  section.facts.push_back({"time.cores", "cores that the run could have used", run.facts.cores,
                           Unit::kCount, measuredIn("cores")});
  section.facts.push_back({"time.peak_bytes", "peak memory of the process",
                           run.facts.peakMemoryBytes, Unit::kBytes,
                           measuredIn("peak_memory_bytes")});
  section.facts.push_back({"time.budget_bytes", "budget", run.facts.budgetBytes, Unit::kBytes,
                           measuredIn("budget_bytes")});
  Table slowest8 = slowTable(run, sorted);
  const std::vector<Value> &worst = slowest8.rows.front();
  section.sentences.push_back(strCat(
      "Half of the tokens take at most ", shownText(nsOf(median), Unit::kNs), ", 95% at most ",
      shownText(slow, Unit::kNs), ". The slowest, token ", shownText(worst[0], Unit::kCount),
      ", lost most in layer ", shownText(worst[2], Unit::kCount), ": ",
      shownText(worst[3], Unit::kNs), " where the mean is ", shownText(worst[4], Unit::kNs), ", ",
      shownText(worst[5], Unit::kNs), " of it waiting, with ", shownText(worst[6], Unit::kCount),
      worst[6] == Value(1.0) ? " expert" : " experts", " read on demand."));
  addMemoryText(findings, section);
  section.tables.push_back(tokensTable(run, decode));
  section.tables.push_back(std::move(slowest8));
  section.tables.push_back(tokenTable(median, run.layers, "time.median",
                                      strCat("The median token: token ", median.step.firstToken)));
  section.tables.push_back(
      tokenTable(slowest, run.layers, "time.slowest",
                 strCat("The slowest token: token ", slowest.step.firstToken)));
  section.tables.push_back(promptTable(prefill));
  addPictures(run.decode.sum().bytesRead > 0, section);
  return section;
}

} // namespace moec
