// What the user can do for a faster run, each with its predicted gain.
#pragma once

#include "compiler/report/Predictor.h"
#include "compiler/report/WhatIf.h"

namespace moec {

/// Fills `advice` and `unsearched` of the answers, whose other fields it reads.
moert::Status advise(const RunSimulation &simulation, const Predictor &predictor,
                     const Session &session, WhatIf &answers);

} // namespace moec
