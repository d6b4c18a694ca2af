#include "tools/moert/EvalReport.h"

#include "tools/moert/Numbers.h"

#include <algorithm>
#include <iomanip>

namespace moert::cli {

namespace {

uint64_t windowsOf(const EvalReport &report, std::optional<uint32_t> text) {
  return static_cast<uint64_t>(
      std::count_if(report.windows.begin(), report.windows.end(),
                    [&](const SampleScore &window) { return !text || window.text == *text; }));
}

void writeScore(JsonWriter &json, const EvalReport &report, std::optional<uint32_t> text) {
  SampleScore score = sumOf(report.windows, text);
  json.key("windows").number(windowsOf(report, text));
  json.key("tokens").number(score.tokens);
  if (score.tokens == 0)
    return;
  json.key("value").number(*valueOf(score, report.metric));
  if (!report.hasReference)
    return;
  json.key("reference").number(*referenceValueOf(score, report.metric));
  json.key("loss").number(*lossOf(score, report.metric));
  if (!text)
    if (std::optional<double> bound = lossUpperBound95(report.windows, report.metric))
      json.key("upper95").number(*bound);
  json.key("kl").number(score.kl());
  json.key("top1").number(score.agreement());
}

size_t nameColumns(const EvalReport &report) {
  size_t columns = 4;
  for (const std::string &name : report.texts)
    columns = std::max(columns, name.size());
  return columns;
}

/// Losses are often below a percent.
std::string formatLoss(double loss) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << loss * 100 << "%";
  return text.str();
}

void appendLine(std::ostringstream &out, const std::string &name, const EvalReport &report,
                std::optional<uint32_t> text) {
  SampleScore score = sumOf(report.windows, text);
  out << std::left << std::setw(static_cast<int>(nameColumns(report))) << name << std::right
      << std::setw(8) << windowsOf(report, text) << std::setw(10) << score.tokens;
  if (score.tokens > 0) {
    out << std::fixed << std::setprecision(4) << std::setw(14) << score.perplexity();
    if (report.hasReference)
      out << std::setw(14) << score.referencePerplexity() << std::setw(9)
          << formatLoss(*lossOf(score, LossMetric::kPerplexity)) << std::setprecision(5)
          << std::setw(12) << score.kl() << std::setw(9) << formatShare(score.agreement());
  }
  out << "\n";
}

} // namespace

std::string reportText(const EvalReport &report) {
  std::ostringstream out;
  out << std::left << std::setw(static_cast<int>(nameColumns(report))) << "text" << std::right
      << std::setw(8) << "windows" << std::setw(10) << "tokens" << std::setw(14) << "perplexity";
  if (report.hasReference)
    out << std::setw(14) << "reference" << std::setw(9) << "loss" << std::setw(12) << "KL (nats)"
        << std::setw(9) << "top-1";
  out << "\n";
  for (uint32_t i = 0; i < report.texts.size(); ++i)
    appendLine(out, report.texts[i], report, i);
  appendLine(out, "all", report, {});
  if (!report.hasReference)
    return out.str();
  SampleScore all = sumOf(report.windows);
  out << "loss (" << metricName(report.metric) << ") " << std::setprecision(6)
      << *lossOf(all, report.metric);
  if (std::optional<double> bound = lossUpperBound95(report.windows, report.metric))
    out << ", upper 95% bound " << *bound;
  else
    out << ", no bound: fewer than 10 windows";
  out << "\n";
  return out.str();
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
