#include "tools/moert/EvalReport.h"

#include "runtime/evaluation/LossBound.h"
#include "runtime/evaluation/LossQuantile.h"
#include "runtime/evaluation/UnitSpread.h"
#include "tools/moert/Numbers.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>

namespace moert::cli {

/// Confidence of the bounds of losses measured here.
constexpr double kConfidence = 0.95;

namespace {

uint64_t countOf(const std::vector<SampleScore> &samples, std::optional<uint32_t> text) {
  return static_cast<uint64_t>(
      std::count_if(samples.begin(), samples.end(),
                    [&](const SampleScore &sample) { return !text || sample.text == *text; }));
}

/// NaN, which JSON writes as null, for a missing value.
double numberOf(std::optional<double> value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

/// The reference's value, if it was measured on the same windows as the artifact's.
std::optional<double> comparableReference(const EvalReport &report, std::optional<uint32_t> text) {
  if (countOf(report.recorded->samples, text) != countOf(report.samples, text))
    return std::nullopt;
  return referenceValueOf(sumOf(report.recorded->samples, text), report.metric);
}

void writeBound(JsonWriter &json, const EvalReport &report, const std::vector<SampleScore> &samples,
                double confidence) {
  const LossMetric metric = report.metric;
  json.key("upper_bound").number(numberOf(lossUpperBound(samples, metric, confidence)));
  json.key("confidence").number(confidence);
  json.key("units").number(unitCount(samples));
  json.key("unit_spread").number(numberOf(unitSpread(samples, metric)));
  if (isOfItems(metric))
    return;
  json.key("quantile").beginObject();
  json.key("fraction").number(kReportedFraction);
  json.key("upper_bound")
      .number(numberOf(lossQuantileBound(samples, metric, kReportedFraction, confidence)));
  json.endObject();
  if (const std::optional<HeavyUnit> heavy = heavyUnitOf(samples, metric)) {
    json.key("heavy_unit").beginObject();
    json.key("text").string(report.texts[heavy->text]);
    json.key("unit").number(uint64_t(heavy->unit) + 1);
    json.key("loss").number(heavy->loss);
    json.key("part").number(heavy->part);
    json.endObject();
  }
}

void writeRecorded(JsonWriter &json, const EvalReport &report, std::optional<uint32_t> text) {
  const std::vector<SampleScore> &samples = report.recorded->samples;
  const uint64_t recorded = countOf(samples, text);
  if (recorded == 0)
    return;
  if (const std::optional<double> reference = comparableReference(report, text))
    json.key("reference").number(*reference);
  json.key("loss").number(numberOf(lossOf(sumOf(samples, text), report.metric)));
  if (!text)
    writeBound(json, report, samples, report.recorded->confidence);
  json.key(strCat("loss_", report.sampleName)).number(recorded);
}

void writeScore(JsonWriter &json, const EvalReport &report, std::optional<uint32_t> text) {
  const SampleScore score = sumOf(report.samples, text);
  json.key(report.sampleName).number(countOf(report.samples, text));
  json.key("tokens").number(score.tokens);
  const std::optional<double> value = valueOf(score, report.metric);
  if (!value)
    return;
  json.key("value").number(*value);
  if (report.recorded)
    writeRecorded(json, report, text);
  if (!report.hasReference)
    return;
  json.key("reference").number(numberOf(referenceValueOf(score, report.metric)));
  json.key("loss").number(numberOf(lossOf(score, report.metric)));
  if (!text)
    writeBound(json, report, report.samples, kConfidence);
  json.key("kl").number(numberOf(valueOf(score, LossMetric::kKl)));
  json.key("top1").number(numberOf(valueOf(score, LossMetric::kTop1)));
}

/// The metric of the table's columns. KL and agreement have columns of their own beside the
/// perplexity.
LossMetric tableMetric(LossMetric metric) {
  return isOfItems(metric) ? metric : LossMetric::kPerplexity;
}

size_t nameColumns(const EvalReport &report) {
  size_t columns = 4;
  for (const std::string &name : report.texts)
    columns = std::max(columns, name.size());
  return columns;
}

/// Two decimals, since losses are often below 1%.
std::string formatLoss(std::optional<double> loss) {
  if (!loss)
    return "-";
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << *loss * 100 << "%";
  return text.str();
}

std::string formatDigits(std::optional<double> value, int digits) {
  if (!value)
    return "-";
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << *value;
  return text.str();
}

void appendRecorded(std::ostringstream &out, const EvalReport &report,
                    std::optional<uint32_t> text) {
  const std::vector<SampleScore> &samples = report.recorded->samples;
  out << std::setw(14) << formatDigits(comparableReference(report, text), 4) << std::setw(9)
      << formatLoss(lossOf(sumOf(samples, text), tableMetric(report.metric))) << std::setw(12)
      << countOf(samples, text);
}

void appendLine(std::ostringstream &out, const std::string &name, const EvalReport &report,
                std::optional<uint32_t> text) {
  const SampleScore score = sumOf(report.samples, text);
  const LossMetric metric = tableMetric(report.metric);
  out << std::left << std::setw(static_cast<int>(nameColumns(report))) << name << std::right
      << std::setw(8) << countOf(report.samples, text) << std::setw(10) << score.tokens;
  if (const std::optional<double> value = valueOf(score, metric)) {
    out << std::setw(14) << formatDigits(value, 4);
    if (report.hasReference) {
      const std::optional<double> agreement = valueOf(score, LossMetric::kTop1);
      out << std::setw(14) << formatDigits(referenceValueOf(score, metric), 4) << std::setw(9)
          << formatLoss(lossOf(score, metric)) << std::setw(12)
          << formatDigits(valueOf(score, LossMetric::kKl), 5) << std::setw(9)
          << (agreement ? formatPercent(*agreement) : "-");
    }
    if (report.recorded)
      appendRecorded(out, report, text);
  }
  out << "\n";
}

/// What single units lose, without an assumption on how losses are distributed; and the unit that
/// decides the bound of the mean, if one does.
std::string quantileLines(const EvalReport &report, const std::vector<SampleScore> &samples,
                          double confidence) {
  if (isOfItems(report.metric))
    return "";
  const std::string percent = strCat(std::lround(kReportedFraction * 100), "%");
  const std::string confident = formatDigits(confidence * 100, 2) + "% confidence";
  std::string text;
  if (const std::optional<double> bound =
          lossQuantileBound(samples, report.metric, kReportedFraction, confidence))
    text = strCat("at least ", percent, " of units lose at most ", formatDigits(bound, 6),
                  " each, with ", confident, " and no assumption on the others\n");
  else
    text = strCat("no statement about ", percent, " of units: with ", confident, " it takes ",
                  leastUnitsOfQuantile(kReportedFraction, confidence), " units or more\n");
  if (const std::optional<HeavyUnit> heavy = heavyUnitOf(samples, report.metric))
    text += heavyUnitText(*heavy, report.texts[heavy->text], formatDigits(heavy->loss, 6)) + "\n";
  return text;
}

/// The last lines: loss and bound over all samples.
std::string lossLine(const EvalReport &report) {
  const std::vector<SampleScore> &samples =
      report.recorded ? report.recorded->samples : report.samples;
  const double confidence = report.recorded ? report.recorded->confidence : kConfidence;
  std::ostringstream out;
  const std::optional<double> loss = lossOf(sumOf(samples), report.metric);
  out << "loss (" << metricName(report.metric) << ") ";
  if (!loss)
    return out.str() + "undefined: the reference's value is 0\n";
  out << formatDigits(*loss, 6);
  if (samples.size() < report.samples.size())
    out << " on " << samples.size() << " of " << report.samples.size() << " " << report.sampleName;
  if (const auto bound = lossUpperBound(samples, report.metric, confidence)) {
    out << ", at most " << formatDigits(bound, 6) << " with " << formatDigits(confidence * 100, 2)
        << "% confidence; " << unitCount(samples) << " units with a standard deviation of "
        << formatDigits(unitSpread(samples, report.metric), 6);
  } else if (isOfItems(report.metric))
    out << ", no bound: it takes " << kMinimumBoundUnits << " items or more";
  else
    out << ", no bound: it takes " << kMinimumBoundUnits
        << " documents or more, not longer documents";
  out << "\n" << quantileLines(report, samples, confidence);
  return out.str();
}

} // namespace

std::string reportText(const EvalReport &report) {
  std::ostringstream out;
  out << std::left << std::setw(static_cast<int>(nameColumns(report))) << "text" << std::right
      << std::setw(8) << report.sampleName << std::setw(10) << "tokens" << std::setw(14)
      << metricName(tableMetric(report.metric));
  if (report.hasReference)
    out << std::setw(14) << "reference" << std::setw(9) << "loss" << std::setw(12) << "KL (nats)"
        << std::setw(9) << "top-1";
  else if (report.recorded)
    out << std::setw(14) << "reference" << std::setw(9) << "loss" << std::setw(12)
        << strCat("of ", report.sampleName);
  out << "\n";
  for (uint32_t i = 0; i < report.texts.size(); ++i)
    appendLine(out, report.texts[i], report, i);
  appendLine(out, "all", report, {});
  return report.hasReference || report.recorded ? out.str() + lossLine(report) : out.str();
}

std::string reportJson(const EvalReport &report, const LoadedModel &artifact,
                       const LoadedModel *reference) {
  std::string out;
  JsonWriter json(out);
  json.beginObject();
  json.key("metric").string(metricName(report.metric));
  writeScore(json, report, {});
  json.key("texts").beginArray();
  for (uint32_t i = 0; i < report.texts.size(); ++i) {
    json.beginObject();
    json.key("text").string(report.texts[i]);
    writeScore(json, report, i);
    json.endObject();
  }
  json.endArray();
  writeMachine(json, artifact, reference);
  json.endObject();
  out += '\n';
  return out;
}

} // namespace moert::cli
