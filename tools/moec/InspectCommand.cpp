// moec inspect prints an artifact's, a profile's or a checkpoint's content; moec verify checks an
// artifact's bytes.
#include "compiler/import/gguf/GgufCheckpoint.h"
#include "compiler/inspection/Inspect.h"
#include "compiler/inspection/InspectCheckpoint.h"
#include "compiler/inspection/InspectProfile.h"
#include "compiler/inspection/VerifyArtifact.h"
#include "runtime/base/Size.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/OutputStream.h"
#include "tools/moec/Command.h"
#include "tools/moec/StepProgress.h"

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

using namespace moert;
using moert::cli::exampleFooter;
using moert::cli::writeOutput;

namespace moec::cli {

// Colours unless the terminal or the user refuses them (https://no-color.org).
static bool hasColour() {
  const char *refused = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  return moert::cli::isOutputTerminal() && (!refused || *refused == '\0') && terminal &&
         std::string_view(terminal) != "dumb";
}

static Status inspectProfile(const std::string &path, bool asJson) {
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<CalibrationProfile> profile,
                         CalibrationProfile::open(path));
  return writeOutput(asJson ? profileAsJson(profile->info(), path)
                            : describeProfile(profile->info(), path));
}

static Status inspectCheckpoint(const std::string &path, bool asJson) {
  MOERT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(path));
  MOERT_ASSIGN_OR_RETURN(const std::string text,
                         asJson ? checkpointAsJson(checkpoint) : describeCheckpoint(checkpoint));
  return writeOutput(text);
}

void addInspectCommand(CLI::App &app, Action &chosen) {
  struct Flags {
    std::string path;
    bool isJson = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "inspect", "Print what an artifact, a calibration profile or a checkpoint holds");
  command->add_option("file", flags->path, "The artifact, calibration profile or checkpoint")
      ->required()
      ->type_name("FILE");
  command->add_flag("--json", flags->isJson, "Print one JSON object")->group("Output");
  command->footer(exampleFooter("moec inspect qwen.moe"));
  command->callback([flags, &chosen] {
    chosen = [flags]() -> Status {
      std::error_code error; // A path that cannot be read is no directory.
      if (std::filesystem::is_directory(flags->path, error) || beginsAsGguf(flags->path))
        return inspectCheckpoint(flags->path, flags->isJson);
      if (beginsAsProfile(flags->path))
        return inspectProfile(flags->path, flags->isJson);
      MOERT_ASSIGN_OR_RETURN(Artifact artifact, readArtifact(flags->path));
      return writeOutput(flags->isJson ? artifactAsJson(artifact, flags->path)
                                       : describeArtifact(artifact, flags->path, hasColour()));
    };
  });
}

static Status runVerify(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(FileSource source, FileSource::open(path));
  StepProgress progress;
  progress.begin("verifying " + path, source.bytes(), 0);
  Status status =
      verifyWholeArtifact(source, [&](uint64_t done, uint64_t) { progress.advanceTo(done); });
  progress.end();
  MOERT_RETURN_IF_ERROR(status);
  return writeOutput(
      strCat(path, ": unchanged since it was written, ", formatBytes(source.bytes()), "\n"));
}

void addVerifyCommand(CLI::App &app, Action &chosen) {
  auto path = std::make_shared<std::string>();
  CLI::App *command =
      app.add_subcommand("verify", "Check every byte of an artifact and every rule of its format");
  command->add_option("artifact", *path, "The artifact")->required()->type_name("OUT.moe");
  command->footer(exampleFooter("moec verify qwen.moe"));
  command->callback([path, &chosen] { chosen = [path] { return runVerify(*path); }; });
}

} // namespace moec::cli
