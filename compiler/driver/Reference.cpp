#include "compiler/driver/Reference.h"

#include <filesystem>

using namespace moert;

namespace moec {

constexpr const char *kStep = "reference";

Result<std::string> makeReference(const ReferenceRequest &request, const WorkDirectory &work,
                                  const Session &session) {
  const std::string path = work.path() + "/reference.moe";
  std::error_code error;
  if (work.isMarked(kStep, request.key) && std::filesystem::is_regular_file(path, error))
    return path;
  MOERT_RETURN_IF_ERROR(work.unmark(kStep));
  CompileRequest compile;
  compile.checkpointDirectory = request.checkpointDirectory;
  compile.outputPath = path;
  compile.passes.bits = mlir::moe::ExpertBits::kSource;
  compile.passes.residentBits = mlir::moe::ResidentBits::kSource;
  compile.threads = request.threads;
  compile.resume = work.isResumed();
  MOERT_RETURN_IF_ERROR(compileCheckpoint(compile, session).withContext("making the reference"));
  MOERT_RETURN_IF_ERROR(work.mark(kStep, request.key));
  return path;
}

} // namespace moec
