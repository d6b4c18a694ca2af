// A plan's name for people.
#pragma once

#include "runtime/format/Artifact.h"

#include <string>

namespace moert {

/// The name and the miss rule, "25%, skip:0.9"; the name alone where it ends with the rule, as
/// "25% skip:0.9" does.
std::string nameWithRule(const Plan &plan);

} // namespace moert
