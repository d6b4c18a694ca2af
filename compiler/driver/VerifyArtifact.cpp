// The checks of moec verify, in the order of what they cost to trust: bytes first, meaning after.
#include "compiler/driver/VerifyArtifact.h"

#include "runtime/format/Verify.h"
#include "runtime/tokenizer/Tokenizer.h"

using namespace moert;

namespace moec {

// A checksum that fits says only that someone computed it: the table may still be one that no
// tokenizer can work with.
static Status verifyTokenizer(const ByteSource &source) {
  MOERT_ASSIGN_OR_RETURN(Artifact artifact, readArtifact(source));
  MOERT_ASSIGN_OR_RETURN(std::vector<std::byte> table, readTokenizerTable(source, artifact));
  if (table.empty())
    return {};
  return Tokenizer::load(table).status().withContext(strCat(source.name(), ": section tokenizer"));
}

Status verifyWholeArtifact(const ByteSource &source,
                           const std::function<void(uint64_t done, uint64_t total)> &progress) {
  MOERT_RETURN_IF_ERROR(verifyArtifact(source, progress));
  return verifyTokenizer(source);
}

} // namespace moec
