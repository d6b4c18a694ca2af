// The compiler's stages and their composition, without a command line: import a checkpoint to IR,
// plan the IR, emit an artifact.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "compiler/session/Session.h"
#include "passes/Pipeline.h"
#include "runtime/base/Status.h"

#include <string>
#include <vector>

namespace moec {

struct CompileRequest {
  std::string checkpointDirectory;
  std::string outputPath;
  std::string modulePath; // Where the planned module is saved too; empty: nowhere.
  mlir::moe::CompileOptions passes;
  unsigned threads = 1;
  bool resume = false;
  bool restart = false;             // Removes what an interrupted command left; not with resume.
  bool startsOverIfRefused = false; // As EmitOptions has it.
  std::vector<std::string> notes;   // Lines for the user, once the checkpoint has been read.
};

/// import, all passes, emit.
moert::Status compileCheckpoint(const CompileRequest &request, const Session &session);

/// Refuses an output that would replace one of the checkpoint's files: weights are read while the
/// output is written, and could not be recovered from it.
moert::Status checkSparesCheckpoint(const std::string &outputPath, const Checkpoint &checkpoint);

/// Refuses a path for the planned module that would replace one of the checkpoint's files or the
/// output; empty: none.
moert::Status checkModulePath(const std::string &modulePath, const std::string &outputPath,
                              const Checkpoint &checkpoint);
moert::Status writeModule(const std::string &text, const std::string &path);

/// The first stage alone: writes the model's IR as text.
moert::Status importToFile(const std::string &checkpointDirectory, const std::string &outputPath,
                           const Session &session);

/// Writes an artifact's planned module, of which emitFromFile() makes the same bytes.
moert::Status importArtifactToFile(const std::string &artifactPath, const std::string &outputPath,
                                   const Session &session);

} // namespace moec
