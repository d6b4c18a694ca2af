// The server's counters in Prometheus' text format.
#pragma once

#include "runtime/serving/ServingLoop.h"

#include <string>

namespace moert::serve {

/// Counters of sequences, tokens, steps and experts since the start, and gauges of this moment.
std::string metricsOf(const SchedulerNumbers &numbers, uint64_t refusals,
                      const ServingLimits &limits);

} // namespace moert::serve
