// A plan's forecast for programs: moec inspect shows it, moert bench beside what was measured.
#pragma once

#include "runtime/base/JsonWriter.h"
#include "runtime/format/Artifact.h"

namespace moert {

/// The key "forecast" of an open object.
void writeForecast(JsonWriter &json, const Forecast &forecast);

} // namespace moert
