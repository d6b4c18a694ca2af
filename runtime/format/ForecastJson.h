// A plan's forecast for programs: moec inspect shows it, moert bench beside what was measured.
#pragma once

#include "runtime/base/JsonWriter.h"
#include "runtime/format/Artifact.h"

namespace moert {

/// What a forecast's least bytes and its bound hold for, in words for people.
inline constexpr const char *kBoundText =
    "the least that any cache of this size and start reads for these tokens";

/// The key "forecast" of an open object.
void writeForecast(JsonWriter &json, const Forecast &forecast);

} // namespace moert
