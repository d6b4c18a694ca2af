// The names of a vision model's classes, which an artifact keeps as a JSON list in its provenance:
// no number depends on them.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

constexpr std::string_view kClassNamesKey = "class_names";

/// Refuses another number of names, and names that cannot be printed.
Status checkClassNames(const std::vector<std::string> &names, uint32_t classes);

/// A name for each class; empty where the artifact has none, or none that can be used.
std::vector<std::string> classNamesOf(const Artifact &artifact);

/// Adds names that checkClassNames() accepts to an artifact that is about to be written.
void addClassNames(const std::vector<std::string> &names, Artifact &artifact);

} // namespace moert
