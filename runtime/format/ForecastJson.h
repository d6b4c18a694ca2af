// A plan's forecast as JSON: printed by moec inspect, and by moert bench beside its measurements.
#pragma once

#include "runtime/base/JsonWriter.h"
#include "runtime/format/Artifact.h"

namespace moert {

/// What a forecast's least bytes and its bound are a bound of, as printed.
inline constexpr const char *kBoundText =
    "the least that any cache of this size and start reads for these tokens";

/// Writes the key "forecast" of an open object.
void writeForecast(JsonWriter &json, const Forecast &forecast);

} // namespace moert
