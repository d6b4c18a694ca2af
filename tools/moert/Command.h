// The commands of moert, one file each.
#pragma once

#include "tools/console/CommandLine.h"

namespace moert::cli {

void addChatCommand(CLI::App &app, Action &chosen);
void addRunCommand(CLI::App &app, Action &chosen);
void addLogitsCommand(CLI::App &app, Action &chosen);
void addEvalCommand(CLI::App &app, Action &chosen);
void addBenchCommand(CLI::App &app, Action &chosen);
void addProbeCommand(CLI::App &app, Action &chosen);
void addClassifyCommand(CLI::App &app, Action &chosen);
void addServeCommand(CLI::App &app, Action &chosen);
void addTokenizeCommand(CLI::App &app, Action &chosen);

} // namespace moert::cli
