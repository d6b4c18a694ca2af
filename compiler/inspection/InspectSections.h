// The parts of what an artifact says of itself, and what they share. Internal to Inspect*.cpp.
#pragma once

#include "runtime/base/JsonWriter.h"
#include "runtime/format/Artifact.h"

#include <string>

namespace moec {

constexpr const char *kIndent = "  ";

/// "0.25" for 2 decimals.
std::string fixed(double value, int decimals);

/// Bits of a weight in all slices, without scales: 4 for int4, or for int2 and a refining int2.
uint32_t widthOf(const moert::Expert &expert);

/// "int4/32", and in bit planes "int4/32 as 2+2".
std::string nameOfSlices(const moert::Expert &expert);

/// Of numbers of which these are the worst: "measured", "assumed at worst".
std::string worstText(moert::Origin worst);

/// Each of the following ends with a line break.
std::string describeExperts(const moert::Artifact &artifact);
std::string describeWidths(const moert::Artifact &artifact, bool hasColour);
std::string describeMeasured(const moert::Measured &measured);
/// All plans in a table, what each decides and why, and what they were expected to do.
std::string describePlans(const moert::Artifact &artifact);
/// The last of these; empty where nothing was expected.
std::string describeForecasts(const moert::Artifact &artifact);

/// "width_totals", and "widths", a list of a layer's experts' in each layer.
void writeWidths(moert::JsonWriter &json, const moert::Artifact &artifact);
/// "measured", where there is something.
void writeMeasured(moert::JsonWriter &json, const moert::Artifact &artifact);
/// "page_bytes" and "plans".
void writePlans(moert::JsonWriter &json, const moert::Artifact &artifact);

} // namespace moec
