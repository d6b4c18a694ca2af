// The commands of moec.
#pragma once

#include "tools/console/CommandLine.h"

namespace moec::cli {

using moert::cli::Action;

void addCompileCommand(CLI::App &app, Action &chosen);
void addCalibrateCommand(CLI::App &app, Action &chosen);
void addSelfTextCommand(CLI::App &app, Action &chosen);
void addImportCommand(CLI::App &app, Action &chosen);
void addEmitCommand(CLI::App &app, Action &chosen);
void addPlanCommand(CLI::App &app, Action &chosen);
void addReplanCommand(CLI::App &app, Action &chosen);
void addReportCommand(CLI::App &app, Action &chosen);
void addInspectCommand(CLI::App &app, Action &chosen);
void addVerifyCommand(CLI::App &app, Action &chosen);

} // namespace moec::cli
