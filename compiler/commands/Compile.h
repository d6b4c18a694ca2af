// The compiler's arrows and their composition, without a command line: a checkpoint becomes IR, IR
// becomes planned IR, planned IR an artifact.
#pragma once

#include "compiler/emit/EmitArtifact.h"
#include "compiler/import/Checkpoint.h"
#include "compiler/session/Session.h"
#include "passes/Pipeline.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

struct CompileRequest {
  std::string checkpointDirectory;
  std::string outputPath;
  mlir::moe::CompileOptions passes;
  unsigned threads = 1;
  bool resume = false;
  bool startsOverIfRefused = false; // As EmitOptions has it.
};

/// import, all passes, emit.
moert::Status compileCheckpoint(const CompileRequest &request, const Session &session);

/// Adds to a failure of one of these commands what --resume goes on with, if there is something.
moert::Status withResumeHint(moert::Status status, const std::string &outputPath);

/// Refuses an output that stands where one of the checkpoint's own files does: weights are read
/// while the output is written, and cannot be had again from it.
moert::Status checkSparesCheckpoint(const std::string &outputPath, const Checkpoint &checkpoint);

/// The first arrow alone: the model's IR, as text.
moert::Status importToFile(const std::string &checkpointDirectory, const std::string &outputPath,
                           const Session &session);

struct EmitRequest {
  std::string modulePath; // Text or bytecode, planned by all passes.
  std::string outputPath;
  unsigned threads = 1;
  bool resume = false;
};

/// The last arrow alone.
moert::Status emitFromFile(const EmitRequest &request, const Session &session);

} // namespace moec
