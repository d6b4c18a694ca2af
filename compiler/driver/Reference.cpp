#include "compiler/driver/Reference.h"

#include "compiler/calibrate/Calibrate.h"
#include "compiler/import/Checkpoint.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"

#include <filesystem>
#include <fstream>

using namespace moert;

namespace moec {

static std::string referencePath(const std::string &directory) {
  return directory + "/reference.moe";
}
// Says of which checkpoint the reference is; written when that is whole.
static std::string markPath(const std::string &directory) {
  return directory + "/reference.of";
}

static bool isReferenceOf(const std::string &directory, const std::string &hash) {
  std::ifstream file(markPath(directory));
  std::string line;
  return std::filesystem::is_regular_file(referencePath(directory)) && std::getline(file, line) &&
         line == hash;
}

Result<std::string> makeReference(const ReferenceRequest &request, const Session &session) {
  const std::string path = referencePath(request.workDirectory);
  std::string hash;
  {
    MOERT_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(request.checkpointDirectory));
    MOERT_ASSIGN_OR_RETURN(uint64_t number, checkpointHash(checkpoint));
    hash = formatChecksum(number);
  }
  if (request.resume && isReferenceOf(request.workDirectory, hash))
    return path;
  std::error_code error;
  std::filesystem::create_directories(request.workDirectory, error);
  if (error)
    return openError(error.value(), strCat("cannot make the directory ", request.workDirectory));
  std::filesystem::remove(markPath(request.workDirectory), error);
  CompileRequest compile;
  compile.checkpointDirectory = request.checkpointDirectory;
  compile.outputPath = path;
  compile.passes.bits = mlir::moe::ExpertBits::kSource;
  compile.passes.residentBits = mlir::moe::ResidentBits::kSource;
  compile.threads = request.threads;
  compile.resume = request.resume;
  MOERT_RETURN_IF_ERROR(compileCheckpoint(compile, session).withContext("making the reference"));
  MOERT_ASSIGN_OR_RETURN(OutputFile mark, OutputFile::create(markPath(request.workDirectory)));
  MOERT_RETURN_IF_ERROR(mark.append(hash + "\n"));
  MOERT_RETURN_IF_ERROR(mark.commit());
  return path;
}

void removeReference(const std::string &workDirectory) {
  std::error_code ignored;
  const std::string path = referencePath(workDirectory);
  for (const std::string &file :
       {path, path + ".partial", path + ".partial.journal", markPath(workDirectory)})
    std::filesystem::remove(file, ignored);
  std::filesystem::remove(workDirectory, ignored); // Refused where something is in it.
}

} // namespace moec
