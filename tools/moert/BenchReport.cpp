#include "tools/moert/BenchReport.h"

#include "runtime/base/Size.h"
#include "runtime/format/FieldJson.h"
#include "runtime/policy/CacheAllotment.h"
#include "tools/moert/Numbers.h"

#include <algorithm>
#include <cmath>

namespace moert::cli {

Spread spreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  double median = values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

uint64_t quantile(std::vector<uint64_t> values, double fraction) {
  std::sort(values.begin(), values.end());
  auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

namespace {

/// Cache sizes whose relative difference is below this have the same forecast.
constexpr double kSameCache = 0.01;

struct BenchSummary {
  Spread prefill, decode;     // Tokens per second, over the repeats.
  double slowTailPerSecond;   // 5% of the tokens are generated at this speed or slower.
  LayerTotals decodeTotals;   // Summed over all repeats.
  uint64_t decodeSteps = 0;   // Summed over all repeats.
  uint64_t bytesPerToken = 0; // While decoding.
};

BenchSummary summaryOf(const BenchNumbers &numbers) {
  BenchSummary summary;
  std::vector<double> prefill, decode;
  for (const GenerationNumbers &repeat : numbers.repeats) {
    prefill.push_back(repeat.promptTokensPerSecond());
    decode.push_back(repeat.decodeTokensPerSecond());
    summary.decodeTotals += repeat.decode;
    summary.decodeSteps += repeat.decodeSteps;
  }
  summary.prefill = spreadOf(prefill);
  summary.decode = spreadOf(decode);
  summary.slowTailPerSecond = 1e9 / double(std::max<uint64_t>(quantile(numbers.decodeNs, 0.95), 1));
  summary.bytesPerToken = summary.decodeTotals.bytesRead / summary.decodeSteps;
  return summary;
}

std::string milliseconds(const std::vector<uint64_t> &decodeNs, double fraction) {
  return strCat(formatNumber(double(quantile(decodeNs, fraction)) / 1e6), " ms");
}

std::string describe(const Spread &spread, size_t repeats) {
  return strCat(formatNumber(spread.median), " tokens/s, median of ", repeats, " (",
                formatNumber(spread.smallest), " to ", formatNumber(spread.largest), ")");
}

void writeSpread(JsonWriter &json, const Spread &spread) {
  json.key("median").number(spread.median);
  json.key("smallest").number(spread.smallest);
  json.key("largest").number(spread.largest);
}

// Hits among the experts that were demanded with all of their slices, and with fewer; null: there
// were none.
void writePrecisions(JsonWriter &json, const LayerTotals &totals) {
  auto rate = [](uint64_t hits, uint64_t misses) {
    return hits + misses == 0 ? std::nan("") : double(hits) / double(hits + misses);
  };
  json.key("full_hit_rate")
      .number(rate(totals.hits - totals.lowHits, totals.misses - totals.lowMisses));
  json.key("low_hit_rate").number(rate(totals.lowHits, totals.lowMisses));
}

void writeTokenTimes(JsonWriter &json, const std::vector<uint64_t> &decodeNs) {
  json.key("token_ns").beginObject();
  json.key("p50").number(quantile(decodeNs, 0.5));
  json.key("p95").number(quantile(decodeNs, 0.95));
  json.key("p99").number(quantile(decodeNs, 0.99));
  json.endObject();
}

// Prefetching while decoding. Recall: fraction of the misses that were prefetch candidates;
// precision: fraction of the prefetches that were useful.
void writePrefetches(JsonWriter &json, const BenchSummary &summary) {
  const LayerTotals &totals = summary.decodeTotals;
  auto perToken = [&](uint64_t count) { return double(count) / double(summary.decodeSteps); };
  // Without prefetches the ratios are undefined: null.
  auto ratio = [&](uint64_t part, uint64_t whole) {
    return totals.prefetches() == 0 || whole == 0 ? std::nan("") : double(part) / double(whole);
  };
  json.key("ready_rate").number(totals.readyRate());
  json.key("stall_rate").number(totals.stallRate());
  json.key("prefetch_bytes_per_token").number(totals.prefetchBytes / summary.decodeSteps);
  json.key("useful_per_token").number(perToken(totals.useful));
  json.key("cancelled_per_token").number(perToken(totals.cancelled));
  json.key("demanded_per_token").number(perToken(totals.hits + totals.misses));
  json.key("lowered_per_token").number(perToken(totals.lowered));
  json.key("skipped_per_token").number(perToken(totals.skipped));
  json.key("substituted_per_token").number(perToken(totals.substituted));
  json.key("promoted_per_token").number(perToken(totals.promoted));
  json.key("prefetch_recall").number(ratio(totals.useful, totals.misses));
  json.key("prefetch_precision").number(ratio(totals.useful, totals.prefetches()));
}

/// States both cache sizes where this run's differs from the plan's. Small differences come from
/// the command's own memory.
std::string otherCacheText(const LoadedModel &loaded) {
  const uint64_t pageBytes = loaded.model->artifact().pageBytes;
  const Plan &plan = planOf(loaded);
  const uint64_t plannedPages = CacheAllotment{plan.stagingPages, plan.quotaPages}.totalPages();
  const double planned = double(plannedPages * pageBytes);
  const double held = double(loaded.account.poolPages * pageBytes);
  if (std::abs(held - planned) <= kSameCache * planned)
    return "";
  return strCat(", with ", formatBytes(uint64_t(planned)), " for experts; this run had ",
                formatBytes(uint64_t(held)));
}

std::string forecastLine(const LoadedModel &loaded) {
  const Plan &plan = planOf(loaded);
  if (!plan.forecast)
    return "";
  const Forecast &forecast = *plan.forecast;
  return strCat("forecast   ", formatNumber(1e9 / forecast.tokenNs), " tokens/s, hit rate ",
                formatPercent(forecast.hitRate), ", ",
                formatBytes(static_cast<uint64_t>(forecast.bytesPerToken)),
                " read per token; decoding the calibration text for long on ", forecast.device,
                otherCacheText(loaded), "\n");
}

} // namespace

std::string benchText(const BenchNumbers &numbers, const BenchMaterial &material,
                      const LoadedModel &loaded) {
  BenchSummary summary = summaryOf(numbers);
  const size_t repeats = numbers.repeats.size();
  return strCat(
      "prompts    ", material.text.empty() ? "random token ids" : material.text, ", ",
      numbers.repeats.front().promptTokens, " tokens each\nprefill    ",
      describe(summary.prefill, repeats), "\ndecode     ", describe(summary.decode, repeats),
      "\nslow tail  ", formatNumber(summary.slowTailPerSecond),
      " tokens/s or less for 5% of the tokens; times of tokens: median ",
      milliseconds(numbers.decodeNs, 0.5), ", 99% within ", milliseconds(numbers.decodeNs, 0.99),
      "\nexperts    hit rate ", formatPercent(summary.decodeTotals.hitRate()), " while decoding, ",
      formatBytes(summary.bytesPerToken), " read per token\n",
      summary.decodeTotals.prefetches() > 0
          ? prefetchLine(summary.decodeTotals, summary.decodeSteps)
          : "",
      missLine(summary.decodeTotals), forecastLine(loaded), machineLines(loaded));
}

std::string benchJson(const BenchNumbers &numbers, const BenchMaterial &material,
                      const LoadedModel &loaded) {
  BenchSummary summary = summaryOf(numbers);
  std::string out;
  JsonWriter json(out);
  json.beginObject();
  json.key("text").string(material.text);
  json.key("given").boolean(material.isGiven);
  json.key("prompt_tokens").number(numbers.repeats.front().promptTokens);
  json.key("tokens").number(numbers.repeats.front().decodeSteps);
  json.key("repeats").number(uint64_t(numbers.repeats.size()));
  json.key("warm_up").number(material.warmUps);
  json.key("prefill_tokens_per_s").beginObject();
  writeSpread(json, summary.prefill);
  json.endObject();
  json.key("decode_tokens_per_s").beginObject();
  writeSpread(json, summary.decode);
  json.key("p5").number(summary.slowTailPerSecond);
  json.endObject();
  writeTokenTimes(json, numbers.decodeNs);
  json.key("hit_rate").number(summary.decodeTotals.hitRate());
  writePrecisions(json, summary.decodeTotals);
  json.key("bytes_read_per_token").number(summary.bytesPerToken);
  writePrefetches(json, summary);
  if (const std::optional<Forecast> &forecast = planOf(loaded).forecast)
    writeField(json.key("forecast"), *forecast);
  writeMachine(json, loaded);
  json.endObject();
  out += '\n';
  return out;
}

} // namespace moert::cli
