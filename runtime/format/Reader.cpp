#include "runtime/format/Reader.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/format/FilePrefix.h"
#include "runtime/format/Manifest.h"
#include "runtime/format/Validate.h"

#include <cstring>

namespace moert {

// The engine's own table of a tokenizer is a few MB; refuses an absurd size before allocating it.
constexpr uint64_t kMaxTokenizerBytes = uint64_t(1) << 28;

static Result<std::vector<std::byte>> readChecked(const ByteSource &source, const char *what,
                                                  uint64_t offset, uint64_t bytes,
                                                  uint64_t maxBytes, uint64_t checksum) {
  if (bytes > maxBytes)
    return invalidInput("section ", what, " has ", bytes, " bytes, this reads at most ", maxBytes);
  std::vector<std::byte> content(bytes);
  MOERT_RETURN_IF_ERROR(source.read(offset, content));
  uint64_t found = checksum64(content);
  if (found != checksum)
    return invalidInput("section ", what, " is damaged: its checksum is ", found, ", expected ",
                        checksum);
  return content;
}

static void takeSections(const FilePrefix &prefix, Artifact &artifact) {
  artifact.majorVersion = prefix.majorVersion;
  artifact.minorVersion = prefix.minorVersion;
  artifact.fileBytes = prefix.fileBytes;
  artifact.manifestOffset = prefix.find(SectionKind::kManifest)->offset;
  artifact.manifestBytes = prefix.find(SectionKind::kManifest)->bytes;
  if (const Section *section = prefix.find(SectionKind::kResident)) {
    artifact.residentOffset = section->offset;
    artifact.residentBytes = section->bytes;
    artifact.residentChecksum = section->checksum;
  }
  if (const Section *section = prefix.find(SectionKind::kRecords)) {
    artifact.recordsOffset = section->offset;
    artifact.recordsBytes = section->bytes;
  }
  if (const Section *section = prefix.find(SectionKind::kTokenizer)) {
    artifact.tokenizerOffset = section->offset;
    artifact.tokenizerBytes = section->bytes;
    artifact.tokenizerChecksum = section->checksum;
  }
}

static Result<Artifact> readUnnamed(const ByteSource &source) {
  if (source.bytes() < kPrefixBytes)
    return invalidInput("this is not a .moe file: it has ", source.bytes(),
                        " bytes, expected at least ", kPrefixBytes);
  std::vector<std::byte> page(kPrefixBytes);
  MOERT_RETURN_IF_ERROR(source.read(0, page));
  MOERT_ASSIGN_OR_RETURN(FilePrefix prefix, decodePrefix(page, source.bytes()));
  const Section &manifest = *prefix.find(SectionKind::kManifest);
  MOERT_ASSIGN_OR_RETURN(std::vector<std::byte> bytes,
                         readChecked(source, "manifest", manifest.offset, manifest.bytes,
                                     kMaxManifestBytes, manifest.checksum));
  Artifact artifact;
  takeSections(prefix, artifact);
  MOERT_RETURN_IF_ERROR(decodeManifest(bytes, artifact));
  MOERT_RETURN_IF_ERROR(validateArtifact(artifact));
  return artifact;
}

Result<Artifact> readArtifact(const ByteSource &source) {
  auto artifact = readUnnamed(source);
  if (!artifact.isOk())
    return artifact.status().withContext(source.name());
  return artifact;
}

Result<Artifact> readArtifact(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(FileSource source, FileSource::open(path));
  return readArtifact(source);
}

Result<std::vector<std::byte>> readTokenizerTable(const ByteSource &source,
                                                  const Artifact &artifact) {
  if (artifact.tokenizerBytes == 0)
    return std::vector<std::byte>();
  auto table = readChecked(source, "tokenizer", artifact.tokenizerOffset, artifact.tokenizerBytes,
                           kMaxTokenizerBytes, artifact.tokenizerChecksum);
  if (!table.isOk())
    return table.status().withContext(source.name());
  return table;
}

} // namespace moert
