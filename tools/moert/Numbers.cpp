#include "tools/moert/Numbers.h"

#include "runtime/base/Size.h"
#include "runtime/format/PlanName.h"
#include "tools/console/WrappedLines.h"

#include <algorithm>
#include <cmath>
#include <iomanip>

namespace moert::cli {

std::string formatNumber(double value) {
  std::ostringstream text;
  double size = std::fabs(value);
  int digits = size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

std::string formatPercent(double fraction) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << fraction * 100 << "%";
  return text.str();
}

/// The plan's name and, if the run applies one, its miss rule with the loss that it carries.
static std::string planText(const LoadedModel &loaded) {
  const Plan &plan = planOf(loaded);
  if (!loaded.engine->isLossy())
    return plan.name;
  const std::string rule = strCat(nameWithRule(plan), " on misses");
  if (!plan.loss)
    return rule + ", of unknown loss";
  const PlanLoss &loss = *plan.loss;
  const auto lossText = [&loss](double value) {
    return loss.metric == "kl" ? formatNumber(value) + " nats per token" : formatPercent(value);
  };
  const std::string ofUnits =
      loss.quantile ? strCat(", ", formatPercent(loss.quantile->fraction), " of units at most ",
                             lossText(loss.quantile->upperBound), " each")
                    : "";
  return strCat(rule, ", which loses at most ", lossText(loss.upperBound), ofUnits, " (",
                loss.metric, ")");
}

std::string machineLines(const LoadedModel &loaded) {
  return strCat("plan       ", planText(loaded), "\nmemory     peak ",
                formatBytes(peakMemoryBytes()), ", accounted ",
                formatBytes(loaded.account.totalBytes()), ", budget ",
                formatBytes(loaded.account.budgetBytes), "\nio         ",
                loaded.engine->ioDescription(), "; kernels ", loaded.engine->kernels().name, "; ",
                loaded.options.threads, loaded.options.threads == 1 ? " thread\n" : " threads\n");
}

std::string prefetchLine(const LayerTotals &totals, uint64_t tokens) {
  return strCat(
      "prefetch   ", formatPercent(totals.readyRate()), " of the experts resident in time; ",
      totals.useful, " of ", totals.prefetches(), " prefetches useful, ",
      formatBytes(totals.prefetchBytes / std::max<uint64_t>(tokens, 1)), " prefetched per token\n");
}

std::string missLine(const LayerTotals &totals) {
  return totals.changed() == 0
             ? ""
             : strCat("misses     ", totals.lowered, " experts computed with fewer slices, ",
                      totals.skipped, " left out, ", totals.substituted, " replaced; ",
                      totals.promoted, " exchanged in memory\n");
}

/// "prompt ..." and "generated ...", without a line break.
static std::string speedLines(const GenerationNumbers &numbers) {
  return strCat("prompt     ", numbers.promptTokens, " tokens, ",
                formatNumber(numbers.promptTokensPerSecond()), " tokens/s\ngenerated  ",
                numbers.generatedTokens, " tokens",
                numbers.decodeSteps > 0
                    ? strCat(", ", formatNumber(numbers.decodeTokensPerSecond()), " tokens/s")
                    : "");
}

void printBriefNumbers(const GenerationNumbers &numbers, const LoadedModel &loaded,
                       const std::string &end) {
  const bool decoded = numbers.decodeSteps > 0;
  const LayerTotals &totals = decoded ? numbers.decode : numbers.prefill;
  const uint64_t tokens = decoded ? numbers.decodeSteps : numbers.promptTokens;
  writeErrorLines(
      strCat(speedLines(numbers), "; end: ", end, "\nmemory     peak ",
             formatBytes(peakMemoryBytes()), " of ", formatBytes(loaded.account.budgetBytes),
             "; hit rate ", formatPercent(totals.hitRate()), ", ",
             formatBytes(totals.bytesRead / std::max<uint64_t>(tokens, 1)), " read per token\n"));
}

void printNumbers(const GenerationNumbers &numbers, const LoadedModel &loaded) {
  std::ostringstream text;
  text << speedLines(numbers);
  LayerTotals all = numbers.prefill;
  all += numbers.decode;
  text << "\nexperts    hit rate " << formatPercent(all.hitRate());
  if (numbers.decodeSteps > 0)
    text << " (" << formatPercent(numbers.decode.hitRate()) << " while generating)";
  text << ", read " << formatBytes(all.bytesRead);
  if (numbers.decodeSteps > 0)
    text << " (" << formatBytes(numbers.decode.bytesRead / numbers.decodeSteps)
         << " per generated token)";
  text << "\n";
  if (all.prefetches() > 0)
    text << prefetchLine(all, numbers.decodeSteps);
  text << missLine(all);
  text << machineLines(loaded);
  writeErrorLines(text.str());
}

void writeMachine(JsonWriter &json, const LoadedModel &loaded, const LoadedModel *second) {
  json.key("plan").string(planOf(loaded).name);
  json.key("preset").string(planOf(loaded).preset);
  json.key("budget_bytes")
      .number(loaded.account.budgetBytes + (second ? second->account.budgetBytes : 0));
  json.key("accounted_bytes")
      .number(loaded.account.totalBytes() + (second ? second->account.totalBytes() : 0));
  json.key("peak_memory_bytes").number(peakMemoryBytes());
  json.key("io").string(loaded.engine->ioDescription());
  json.key("isa").string(loaded.engine->kernels().name);
  json.key("threads").number(loaded.options.threads);
  json.key("prefill_chunk_tokens").number(loaded.engine->prefillChunk());
}

static void writeTotals(JsonWriter &json, const LayerTotals &totals) {
  forEachColumn([&](const char *name, auto, auto ofSum) { json.key(name).number(totals.*ofSum); });
}

void writeNumbers(JsonWriter &json, const GenerationNumbers &numbers, const LoadedModel &loaded) {
  json.key("prompt_tokens").number(numbers.promptTokens);
  json.key("generated_tokens").number(numbers.generatedTokens);
  json.key("prefill").beginObject();
  json.key("tokens_per_s").number(numbers.promptTokensPerSecond());
  json.key("wall_ns").number(numbers.promptNs);
  writeTotals(json, numbers.prefill);
  json.endObject();
  json.key("decode").beginObject();
  json.key("steps").number(numbers.decodeSteps);
  json.key("tokens_per_s").number(numbers.decodeTokensPerSecond());
  json.key("wall_ns").number(numbers.decodeNs);
  writeTotals(json, numbers.decode);
  json.endObject();
  writeMachine(json, loaded);
}

} // namespace moert::cli
