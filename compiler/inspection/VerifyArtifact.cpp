// The checks of moec verify: bytes first, then meaning, which assumes intact bytes.
#include "compiler/inspection/VerifyArtifact.h"

#include "compiler/profile/TraceSection.h"
#include "runtime/experts/PathTable.h"
#include "runtime/format/Verify.h"
#include "runtime/text/tokenizer/Tokenizer.h"

using namespace moert;

namespace moec {

// Correct checksums do not make a section usable: whoever wrote it may have written invalid
// content.
static Status verifySections(const ByteSource &source) {
  MOERT_ASSIGN_OR_RETURN(Artifact artifact, readArtifact(source));
  MOERT_ASSIGN_OR_RETURN(std::vector<std::byte> table, readTokenizerTable(source, artifact));
  MOERT_ASSIGN_OR_RETURN(std::vector<std::byte> paths, readPaths(source, artifact));
  MOERT_ASSIGN_OR_RETURN(std::vector<std::byte> trace, readTrace(source, artifact));
  auto where = [&](const char *section) { return strCat(source.name(), ": section ", section); };
  const std::vector<uint32_t> layerExperts = layerExpertsOf(artifact);
  if (!table.empty())
    MOERT_RETURN_IF_ERROR(Tokenizer::load(table).status().withContext(where("tokenizer")));
  if (!paths.empty())
    MOERT_RETURN_IF_ERROR(
        PathTable::create(paths, layerExperts).status().withContext(where("paths")));
  if (!trace.empty())
    MOERT_RETURN_IF_ERROR(decodeTrace(trace, layerExperts).status().withContext(where("trace")));
  return {};
}

Status verifyWholeArtifact(const ByteSource &source,
                           const std::function<void(uint64_t done, uint64_t total)> &progress) {
  MOERT_RETURN_IF_ERROR(verifyArtifact(source, progress));
  return verifySections(source);
}

} // namespace moec
