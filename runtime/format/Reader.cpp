#include "runtime/format/Reader.h"

#include "runtime/base/ArtifactPath.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/format/FilePrefix.h"
#include "runtime/format/Manifest.h"
#include "runtime/format/Validate.h"

#include <algorithm>

namespace moert {

// A tokenizer's table, the activation-path tables and a trace take a few MB each; refuses an absurd
// size before allocating it.
constexpr uint64_t kMaxSectionBytes = uint64_t(1) << 28;

static Result<std::vector<std::byte>> readChecked(const ByteSource &source, const char *what,
                                                  uint64_t offset, uint64_t bytes,
                                                  uint64_t maxBytes, uint64_t checksum) {
  if (bytes > maxBytes)
    return invalidInput("section ", what, " has ", bytes, " bytes, this reads at most ", maxBytes);
  std::vector<std::byte> content(bytes);
  MOERT_RETURN_IF_ERROR(source.read(offset, content));
  uint64_t found = checksum64(content);
  if (found != checksum)
    return invalidInput("section ", what, " is damaged: its checksum is ", formatChecksum(found),
                        ", expected ", formatChecksum(checksum));
  return content;
}

static void takeSections(const FilePrefix &prefix, Artifact &artifact) {
  artifact.majorVersion = prefix.majorVersion;
  artifact.minorVersion = prefix.minorVersion;
  artifact.fileBytes = prefix.fileBytes;
  artifact.manifestOffset = prefix.find(SectionKind::kManifest)->offset;
  artifact.manifestBytes = prefix.find(SectionKind::kManifest)->bytes;
  auto take = [&](SectionKind kind, uint64_t &offset, uint64_t &bytes, uint64_t &checksum) {
    if (const Section *section = prefix.find(kind)) {
      offset = section->offset;
      bytes = section->bytes;
      checksum = section->checksum;
    }
  };
  take(SectionKind::kResident, artifact.residentOffset, artifact.residentBytes,
       artifact.residentChecksum);
  if (const Section *section = prefix.find(SectionKind::kRecords)) {
    artifact.recordsOffset = section->offset;
    artifact.recordsBytes = section->bytes;
  }
  take(SectionKind::kTokenizer, artifact.tokenizerOffset, artifact.tokenizerBytes,
       artifact.tokenizerChecksum);
  take(SectionKind::kPaths, artifact.pathsOffset, artifact.pathsBytes, artifact.pathsChecksum);
  take(SectionKind::kTrace, artifact.traceOffset, artifact.traceBytes, artifact.traceChecksum);
}

/// Refuses a file of another kind by what it is.
static Status checkKind(const ByteSource &source) {
  std::byte first[64];
  const auto bytes = std::span(first).first(std::min<uint64_t>(source.bytes(), std::size(first)));
  MOERT_RETURN_IF_ERROR(source.read(0, bytes));
  const std::string found =
      foreignFileText({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
  return found.empty() ? Status() : invalidInput(found);
}

static Result<Artifact> readUnnamed(const ByteSource &source) {
  MOERT_RETURN_IF_ERROR(checkKind(source));
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

static Result<std::vector<std::byte>> readSection(const ByteSource &source, SectionKind kind,
                                                  uint64_t offset, uint64_t bytes,
                                                  uint64_t checksum) {
  if (bytes == 0)
    return std::vector<std::byte>();
  auto content = readChecked(source, nameOf(kind), offset, bytes, kMaxSectionBytes, checksum);
  if (!content.isOk())
    return content.status().withContext(source.name());
  return content;
}

Result<std::vector<std::byte>> readTokenizerTable(const ByteSource &source,
                                                  const Artifact &artifact) {
  return readSection(source, SectionKind::kTokenizer, artifact.tokenizerOffset,
                     artifact.tokenizerBytes, artifact.tokenizerChecksum);
}

Result<std::vector<std::byte>> readPaths(const ByteSource &source, const Artifact &artifact) {
  return readSection(source, SectionKind::kPaths, artifact.pathsOffset, artifact.pathsBytes,
                     artifact.pathsChecksum);
}

Result<std::vector<std::byte>> readTrace(const ByteSource &source, const Artifact &artifact) {
  return readSection(source, SectionKind::kTrace, artifact.traceOffset, artifact.traceBytes,
                     artifact.traceChecksum);
}

} // namespace moert
