// The parts of an artifact's description, and shared helpers. Internal to Inspect*.cpp.
#pragma once

#include "compiler/pool/ExpertWidth.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <optional>
#include <string>

namespace moec {

constexpr const char *kIndent = "  ";

/// "0.25" for 2 decimals.
std::string fixed(double value, int decimals);

/// A loss in the unit of its metric: "1.25%", or "0.01250 nats per token" for KL.
std::string lossText(const std::string &metric, double loss);

/// "at least 90% of units lose at most 3.00% each". loss: as text.
std::string unitsText(double fraction, const std::string &loss);

/// "1.25%, at most 1.60% with 96.40% confidence", and ", and at least 90% of units lose at most
/// 3.00% each" where that is known. measured: a moert::Measured or a moert::PlanLoss.
template <typename Loss> std::string boundedLossText(const Loss &measured) {
  std::string text = moert::strCat(lossText(measured.metric, measured.loss), ", at most ",
                                   lossText(measured.metric, measured.upperBound), " with ",
                                   fixed(measured.confidence * 100, 2), "% confidence");
  if (const auto &quantile = measured.quantile)
    text += moert::strCat(
        ", and ", unitsText(quantile->fraction, lossText(measured.metric, quantile->upperBound)));
  return text;
}

/// "loss in perplexity of at most 2.00%", "at least 90% of units lose at most 3.00% each", or
/// both.
std::string targetText(const moert::Measured &measured);

/// Bits of a weight of gate and up, and of down, at full precision, without scales: 4 for int4, or
/// for int2 and a refining int2.
ExpertWidth widthOf(const moert::Expert &expert);

/// How a matrix is stored: "int4/32"; in several slices "int4/32 as 2+2"; with a low copy
/// "bf16 + int4/32 copy".
std::string nameOfSlices(const moert::Expert &expert, moert::ExpertPart part);

/// That of gate and up; where down's is another "int4/32 as 2+2, down int6/32 as 2+2+2".
std::string nameOfSlices(const moert::Expert &expert);

/// The origin of a set of numbers, given the worst of their origins: "measured", "assumed at
/// worst".
std::string worstText(moert::Origin worst);

/// The text of each of the following functions ends with a line break.
std::string describeExperts(const moert::Artifact &artifact);
std::string describeWidths(const moert::Artifact &artifact, bool hasColour);
/// Templates, special tokens and sampling defaults; empty if there are none.
std::string describeChat(const moert::Artifact &artifact);
std::string describeMeasured(const moert::Measured &measured);
/// All plans in a table, the settings and reasons of each, and the forecasts.
std::string describePlans(const moert::Artifact &artifact);
/// The forecasts alone; empty if there are none.
std::string describeForecasts(const moert::Artifact &artifact);

/// Writes "width_totals" and "widths", a list of the experts' widths per layer.
void writeWidths(moert::JsonWriter &json, const moert::Artifact &artifact);
/// Writes "chat" and "sampling", if the artifact has them.
void writeChat(moert::JsonWriter &json, const moert::Artifact &artifact);
/// Writes "page_bytes" and "plans".
void writePlans(moert::JsonWriter &json, const moert::Artifact &artifact);

} // namespace moec
