// How many parameters a model has, as its publisher counts them.
#pragma once

#include "compiler/import/ModelDescription.h"

#include <cstdint>

namespace moec {

struct ParameterCount {
  uint64_t all = 0;     // A tied head counts once.
  uint64_t experts = 0; // In routed experts.
  uint64_t active = 0; // For one token: without an embedding that is not the head, of which a token
                       // reads one row, and with the experts that the router chooses.
};

ParameterCount countParameters(const ModelDescription &description);

} // namespace moec
