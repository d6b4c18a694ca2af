// What the compiler measured of the artifact's accuracy.
#include "compiler/report/ReportSections.h"
#include "runtime/base/Checksum.h"

using namespace moert;

namespace moec {

static Table textsTable(const Measured &measured, const Source &source) {
  Table table{
      .id = "accuracy.texts",
      .title = "Texts",
      .columns = {{"text", "text"},
                  {"use", "used for"},
                  {"bytes", "size", Unit::kBytes, source},
                  {"samples", measured.isOnItems() ? "items" : "windows", Unit::kCount, source},
                  {"hash", "XXH3-64"}}};
  for (const MeasuredText &text : measured.calibrationTexts)
    table.rows.push_back(
        {text.name, "calibration and search", text.bytes, {}, formatChecksum(text.hash)});
  for (const MeasuredText &text : measured.acceptanceTexts)
    table.rows.push_back({text.name, "acceptance", text.bytes, uint64_t(text.windows.size()),
                          formatChecksum(text.hash)});
  return table;
}

Section accuracySection(const ReportInputs &inputs) {
  Section section{.id = "accuracy", .title = "Accuracy"};
  if (!inputs.artifact.measured) {
    section.sentences.push_back("Nothing was measured: the artifact was compiled to given widths. "
                                "moec compile --accuracy-loss measures the loss.");
    return section;
  }
  const Measured &measured = *inputs.artifact.measured;
  const Source source{Origin::kMeasured, "artifact: measured"};
  const Unit unit = measured.metric == "kl" ? Unit::kNats : Unit::kFraction;
  const bool isMet = measured.upperBound <= measured.target;
  section.sentences.push_back(
      strCat("Accuracy ", isMet ? "held" : "did not hold", ": a loss in ", measured.metric, " of ",
             shownText(measured.loss, unit), " was measured, at most ",
             shownText(measured.upperBound, unit), " with ",
             shownText(measured.confidence, Unit::kFraction), " confidence, against a target of ",
             shownText(measured.target, unit), "."));
  section.sentences.push_back("Every expert that the router asks for is waited for, so that no "
                              "budget changes the output and a miss adds no loss.");
  const auto add = [&](const char *id, const char *label, Value value, Unit of) {
    section.facts.push_back({strCat("accuracy.", id), label, std::move(value), of, source});
  };
  add("metric", "metric", measured.metric, Unit::kNone);
  add("target", "allowed loss", measured.target, unit);
  add("loss", "measured loss", measured.loss, unit);
  add("upper_bound", "its upper bound", measured.upperBound, unit);
  add("confidence", "confidence of the bound", measured.confidence, Unit::kFraction);
  add("units", "independent units", measured.units, Unit::kCount);
  add("documents", "documents", measured.documents, Unit::kCount);
  add("unit_spread", "standard deviation of a unit's loss", measured.unitSpread, unit);
  add("kl", "KL to the reference, per token", measured.klNats, Unit::kNats);
  add("top1", "top-1 agreement", 1 - measured.topDisagreement, Unit::kFraction);
  add("solver", "solver of the widths", measured.solver, Unit::kNone);
  add("quantizer", "quantizer", measured.quantizer, Unit::kNone);
  add("measurements", "measurements of the search", measured.measurements, Unit::kCount);
  add("calibration_tokens", "calibration tokens", measured.calibrationTokens, Unit::kCount);
  section.tables.push_back(textsTable(measured, source));
  return section;
}

} // namespace moec
