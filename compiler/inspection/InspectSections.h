// The parts of an artifact's description, and shared helpers. Internal to Inspect*.cpp.
#pragma once

#include "compiler/pool/ExpertWidth.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/format/Artifact.h"

#include <string>

namespace moec {

constexpr const char *kIndent = "  ";

/// "0.25" for 2 decimals.
std::string fixed(double value, int decimals);

/// A loss in the unit of its metric: "1.25%", or "0.01250 nats per token" for KL.
std::string lossText(const std::string &metric, double loss);

/// "1.25%, at most 1.60% with 96.40% confidence"
std::string boundedLossText(const std::string &metric, double loss, double upperBound,
                            double confidence);

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
/// Writes "measured", if the artifact has measurements.
void writeMeasured(moert::JsonWriter &json, const moert::Artifact &artifact);
/// Writes "quick_loss", if the artifact has it.
void writeQuickLoss(moert::JsonWriter &json, const moert::Artifact &artifact);
/// Writes "chat" and "sampling", if the artifact has them.
void writeChat(moert::JsonWriter &json, const moert::Artifact &artifact);
/// Writes "page_bytes" and "plans".
void writePlans(moert::JsonWriter &json, const moert::Artifact &artifact);

} // namespace moec
