// moert serve: loads a model and answers requests until it is interrupted.
#pragma once

#include "tools/console/CommandLine.h"

namespace moert::serve {

void addServeCommand(CLI::App &app, cli::Action &chosen);

} // namespace moert::serve
