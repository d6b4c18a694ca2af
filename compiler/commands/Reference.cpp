#include "compiler/commands/Reference.h"

#include "runtime/format/Reader.h"

using namespace moert;

namespace moec {

constexpr const char *kStep = "reference";

Result<std::string> makeReference(const ReferenceRequest &request, const WorkDirectory &work,
                                  const Session &session) {
  const std::string path = work.path() + "/reference.moe";
  // A truncated or damaged reference of an earlier run is made again.
  if (work.isMarked(kStep, request.key) && readArtifact(path).isOk())
    return path;
  MOERT_RETURN_IF_ERROR(work.unmark(kStep));
  CompileRequest compile;
  compile.checkpointDirectory = request.checkpointDirectory;
  compile.outputPath = path;
  compile.passes.bits = mlir::moe::ExpertBits::kSource;
  compile.passes.residentBits = mlir::moe::ResidentBits::kSource;
  compile.threads = request.threads;
  compile.resume = work.isResumed();
  compile.startsOverIfRefused = true;
  MOERT_RETURN_IF_ERROR(compileCheckpoint(compile, session).withContext("making the reference"));
  MOERT_RETURN_IF_ERROR(work.mark(kStep, request.key));
  return path;
}

} // namespace moec
