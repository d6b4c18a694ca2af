// The expert cache: allotment, hits and evictions; and what prefetches were good for.
#include "compiler/inspection/InspectSections.h"
#include "compiler/report/ReportSections.h"
#include "runtime/policy/CacheAllotment.h"

#include <algorithm>
#include <map>

using namespace moert;

namespace moec {

static Value ratio(double part, double whole) {
  return whole > 0 ? Value(part / whole) : Value();
}

//===-- The cache -----------------------------------------------------------------------------===//

namespace {

/// The replayed run's counts per MoE layer, of decode steps.
Result<std::vector<CacheCounts>> replayedCounts(const RunSimulation &simulation) {
  const size_t fromStep = simulation.firstDecodeStep();
  MOERT_ASSIGN_OR_RETURN(const TimedResult result,
                         replayInTime(simulation.problem(),
                                      simulation.settingsFor(simulation.poolPages()),
                                      {.fromStep = fromStep, .keepsPasses = true}));
  const size_t layers = simulation.routes().layerExperts.size();
  std::vector<CacheCounts> counts(layers);
  for (size_t i = 0; i < result.passes.size(); ++i)
    counts[i % layers] += result.passes[i].counts.cache;
  return counts;
}

} // namespace

/// Bytes of the different experts of a layer that the decoded tokens use.
static std::vector<double> usedBytes(const RunSimulation &simulation) {
  const RoutingTrace &trace = simulation.routes();
  const std::vector<std::vector<uint64_t>> &records = simulation.inputs().facts.recordBytes;
  std::vector<std::vector<bool>> isUsed;
  for (uint32_t experts : trace.layerExperts)
    isUsed.emplace_back(experts);
  std::vector<double> bytes(isUsed.size());
  for (size_t p = simulation.firstDecodeStep() * isUsed.size(); p < trace.passes.size(); ++p) {
    const uint32_t layer = trace.passes[p].layer;
    for (uint32_t expert : trace.demandOf(trace.passes[p]).wanted) {
      bytes[layer] += isUsed[layer][expert] ? 0 : static_cast<double>(records[layer][expert]);
      isUsed[layer][expert] = true;
    }
  }
  return bytes;
}

static Table cacheTable(const RunFindings &findings, const std::vector<CacheCounts> &replayed) {
  const RunSimulation &simulation = findings.simulation;
  const Source plan{Origin::kDerived, "the plan's quotas for this run's pool"};
  const Source run = measuredIn("totals.decode, hits, misses and bytes_read");
  const Source replay = simulatedFor(simulation);
  Table table{.id = "cache.layers",
              .title = "Layers",
              .columns = {{"layer", "layer", Unit::kCount, plan},
                          {"quota_bytes", "keeps", Unit::kBytes, plan},
                          {"used_bytes", "used by this run", Unit::kBytes, measuredIn("routes")},
                          {"all_bytes", "all experts", Unit::kBytes, plan},
                          {"pinned", "pinned", Unit::kCount, plan},
                          {"hit_rate", "hits", Unit::kFraction, run},
                          {"replayed_hit_rate", "hits, replayed", Unit::kFraction, replay},
                          {"bytes_read", "read while it ran, per token", Unit::kBytes, run},
                          {"evictions", "evictions per token", Unit::kCount, replay}}};
  const PlanSettings settings = simulation.settingsFor(simulation.poolPages());
  const CacheShape shape = shapeOf(simulation.problem());
  const PhaseTotals &decode = simulation.run().decode;
  const double pageBytes = simulation.inputs().artifact.pageBytes;
  const std::vector<double> used = usedBytes(simulation);
  const size_t steps =
      simulation.routes().passes.size() / shape.layers.size() - simulation.firstDecodeStep();
  for (size_t l = 0; l < shape.layers.size(); ++l) {
    const uint32_t number = simulation.inputs().artifact.moeLayers[l].layer;
    const LayerTotals &layer = decode.layers[number];
    const CacheCounts &counts = replayed[l];
    const bool isShared = settings.rules.sharing == CacheSharing::kOnePool;
    table.rows.push_back(
        {number, isShared ? Value() : Value(settings.allotment.quotaPages[l] * pageBytes), used[l],
         double(shape.layers[l].allPages) * pageBytes,
         settings.pinned.empty() ? uint64_t(0) : uint64_t(settings.pinned[l].size()),
         ratio(double(layer.hits), double(layer.hits + layer.misses)),
         ratio(double(counts.hits), double(counts.hits + counts.misses)),
         double(layer.bytesRead) / double(decode.steps), double(counts.evictions) / double(steps)});
  }
  return table;
}

/// Hits by the width of the experts, whose records differ in size.
static Table widthsTable(const Section &experts) {
  const Table &all = *findTable(experts, "experts.all");
  struct Sum {
    double experts = 0, used = 0, found = 0;
  };
  std::map<double, Sum> sums;
  for (const std::vector<Value> &row : all.rows) {
    Sum &sum = sums[row[2].number()];
    sum.experts += 1;
    sum.used += row[4].number();
    sum.found += row[6].isNumber() ? row[4].number() * row[6].number() : 0;
  }
  const Source replay = all.columns[6].source;
  Table table{
      .id = "cache.widths",
      .title = "Hits by width",
      .columns = {{"bits", "mean bits", Unit::kBits, all.columns[2].source},
                  {"experts", "experts", Unit::kCount, all.columns[2].source},
                  {"hit_rate", "hits, replayed without prefetches", Unit::kFraction, replay}}};
  for (const auto &[bits, sum] : sums)
    table.rows.push_back({bits, sum.experts, ratio(sum.found, sum.used)});
  return table;
}

Result<Section> cacheSection(const RunFindings &findings, const Section &experts) {
  Section section{.id = "cache", .title = "Cache"};
  const RunSimulation &simulation = findings.simulation;
  const ReportInputs &inputs = simulation.inputs();
  const Plan &plan = planOf(inputs, simulation.run());
  const LayerTotals all = simulation.run().decode.sum();
  MOERT_ASSIGN_OR_RETURN(const std::vector<CacheCounts> counts, replayedCounts(simulation));
  section.facts.push_back({"cache.hit_rate", "hits", all.hitRate(), Unit::kFraction,
                           measuredIn("totals.decode, hits and misses")});
  if (plan.forecast)
    section.facts.push_back(
        {"cache.forecast_hit_rate",
         "hits forecast on the calibration text",
         plan.forecast->hitRate,
         Unit::kFraction,
         {worseOf(Origin::kDerived, plan.forecast->origin), "artifact: forecast"}});
  section.facts.push_back({"cache.replayed_hit_rate", "hits of the replay",
                           simulation.base().hitRate, Unit::kFraction, simulatedFor(simulation)});
  const double read = measuredBytesPerToken(simulation.run());
  section.facts.push_back({"cache.bytes_read", "read per token", read, Unit::kBytes,
                           measuredIn("totals.decode, bytes_read")});
  section.facts.push_back({"cache.belady_bytes",
                           "read per token by the perfect cache (Belady)",
                           findings.diagnosis.leastBytes,
                           Unit::kBytes,
                           {Origin::kDerived, "Belady's rule on this run's routes"}});
  section.facts.push_back(
      {"cache.belady_hit_rate",
       "hits of the perfect cache (Belady), at most",
       findings.diagnosis.mostHits,
       Unit::kFraction,
       {Origin::kDerived,
        "Belady's rule on this run's routes, with records of the smallest size"}});
  section.facts.push_back({"cache.pool_bytes", "memory for experts",
                           simulation.poolPages() * inputs.artifact.pageBytes, Unit::kBytes,
                           measuredIn("pool_pages")});
  section.facts.push_back({"cache.eviction",
                           "eviction",
                           std::string(nameOf(plan.rules.eviction)),
                           Unit::kNone,
                           {Origin::kStated, "artifact: plan"}});
  section.facts.push_back({"cache.sharing",
                           "sharing",
                           std::string(nameOf(plan.rules.sharing)),
                           Unit::kNone,
                           {Origin::kStated, "artifact: plan"}});
  section.sentences.push_back(strCat(shownText(all.hitRate(), Unit::kFraction),
                                     " of the experts were in memory when they "
                                     "were needed; ",
                                     shownText(read, Unit::kBytes), " were read per token, ",
                                     shownText(findings.diagnosis.leastBytes, Unit::kBytes),
                                     " by the perfect cache of this size."));
  section.tables.push_back(cacheTable(findings, counts));
  section.tables.push_back(widthsTable(experts));
  if (plan.rules.sharing != CacheSharing::kOnePool)
    section.pictures.push_back({.id = "cache.memory.picture",
                                .title = "Memory by layer",
                                .description =
                                    "A bar per layer: the memory that the plan keeps for its "
                                    "experts; the mark is what all of its experts take that "
                                    "this run used.",
                                .specification = "need",
                                .table = "cache.layers",
                                .x = "layer",
                                .y = "quota_bytes",
                                .series = "used_bytes"});
  section.pictures.push_back({.id = "cache.layers.picture",
                              .title = "Hits by layer",
                              .description =
                                  "A bar per layer: the fraction of its demanded experts "
                                  "that were in memory.",
                              .specification = "columns",
                              .table = "cache.layers",
                              .x = "layer",
                              .y = "hit_rate"});
  return section;
}

//===-- Prefetches ----------------------------------------------------------------------------===//

static double meanBytesOf(const ReportInputs &inputs, size_t moeLayer) {
  double bytes = 0;
  for (uint64_t record : inputs.facts.recordBytes[moeLayer])
    bytes += static_cast<double>(record);
  return bytes / static_cast<double>(inputs.facts.recordBytes[moeLayer].size());
}

/// What no plan can exceed: every read ends before its layer.
static void addPerfect(const RunSimulation &simulation, Section &section) {
  Source perfect = simulatedFor(simulation);
  perfect.from += "; every read ends before its layer";
  const double inTimeNs = simulation.base().tokenNs - simulation.base().waitNs;
  section.facts.push_back(
      {"prefetch.perfect_tokens_per_second", "with a perfect predictor and time to read",
       measuredTokensPerSecond(simulation.run()) * simulation.base().tokenNs / inTimeNs,
       Unit::kTokensPerSecond, perfect});
}

Section prefetchSection(const RunFindings &findings) {
  Section section{.id = "prefetch", .title = "Prefetch"};
  const RunSimulation &simulation = findings.simulation;
  const Plan &plan = planOf(simulation.inputs(), simulation.run());
  const PhaseTotals &decode = simulation.run().decode;
  const LayerTotals all = decode.sum();
  addPerfect(simulation, section);
  if (all.prefetches() == 0) {
    section.sentences.push_back(prefetchesAnything(plan.prefetches)
                                    ? "The plan prefetches, but no expert was prefetched."
                                    : "The plan does not prefetch; the part of a token's time of "
                                      "that name is the cache's decisions.");
    return section;
  }
  const Source source = measuredIn("totals.decode, useful, cancelled, ready and prefetch_bytes");
  const double useful = double(all.useful), late = useful - double(all.ready - all.hits);
  section.facts.push_back({"prefetch.recall", "misses that were prefetched",
                           ratio(useful, double(all.misses)), Unit::kFraction, source});
  section.facts.push_back({"prefetch.precision", "prefetches that were used",
                           ratio(useful, double(all.prefetches())), Unit::kFraction, source});
  section.facts.push_back({"prefetch.late", "used prefetches that were still being read",
                           ratio(late, useful), Unit::kFraction, source});
  section.facts.push_back({"prefetch.bytes", "prefetched per token",
                           double(all.prefetchBytes) / double(decode.steps), Unit::kBytes, source});
  section.sentences.push_back(
      strCat(shownText(ratio(useful, double(all.misses)), Unit::kFraction),
             " of the misses were "
             "prefetched; ",
             shownText(ratio(useful, double(all.prefetches())), Unit::kFraction),
             " of the prefetches were used, ", shownText(ratio(late, useful), Unit::kFraction),
             " of those came late."));
  Table table{.id = "prefetch.layers",
              .title = "Layers",
              .columns = {{"layer", "layer", Unit::kCount, source},
                          {"rule", "rule"},
                          {"ahead", "layers ahead", Unit::kCount, {Origin::kStated, "plan"}},
                          {"recall", "recall", Unit::kFraction, source},
                          {"precision", "precision", Unit::kFraction, source},
                          {"useful", "useful in it", Unit::kCount, source},
                          {"late", "late in it", Unit::kCount, source},
                          {"wasted", "released while it ran", Unit::kCount, source},
                          {"bytes", "read ahead while it ran, per token", Unit::kBytes, source},
                          {"wasted_bytes",
                           "wasted per token, in experts of the mean size",
                           Unit::kBytes,
                           {Origin::kDerived, source.from}}}};
  const std::vector<MoeLayer> &layers = simulation.inputs().artifact.moeLayers;
  for (size_t l = 0; l < layers.size(); ++l) {
    const LayerTotals &layer = decode.layers[layers[l].layer];
    const PrefetchRule rule = l < plan.prefetches.size() ? plan.prefetches[l] : PrefetchRule();
    const double prefetched = double(layer.prefetches());
    table.rows.push_back(
        {layers[l].layer, prefetchText(rule),
         rule.predictor == Predictor::kOff ? Value() : Value(uint32_t(rule.ahead)),
         ratio(double(layer.useful), double(layer.misses)), ratio(double(layer.useful), prefetched),
         layer.useful, double(layer.useful) - double(layer.ready - layer.hits), layer.cancelled,
         double(layer.prefetchBytes) / double(decode.steps),
         double(layer.cancelled) * meanBytesOf(simulation.inputs(), l) / double(decode.steps)});
  }
  table.note = "A prefetch counts as useful or late in the layer that used its expert. Reads ahead "
               "and releases count in the layer that ran meanwhile, so that a layer without a rule "
               "may have some.";
  section.tables.push_back(std::move(table));
  section.pictures.push_back({.id = "prefetch.layers.picture",
                              .title = "Recall by layer",
                              .description = "A bar per layer: misses that had been prefetched.",
                              .specification = "columns",
                              .table = "prefetch.layers",
                              .x = "layer",
                              .y = "recall"});
  return section;
}

} // namespace moec
