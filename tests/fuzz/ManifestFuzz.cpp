// A manifest from a stranger, inside sections that are in order: the way to the rules of
// instructions and shapes is shorter here than through a whole file.
#include "runtime/format/Manifest.h"
#include "runtime/format/Validate.h"
#include "tests/unit/format/TinyArtifact.h"

#include <cstdlib>
#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const moert::Artifact sections = tinyPlannedArtifact();
  std::vector<uint64_t> aligned(size / 8 + 1); // A section starts at a multiple of 4096.
  std::memcpy(aligned.data(), data, size);
  moert::Artifact artifact;
  artifact.majorVersion = sections.majorVersion;
  artifact.minorVersion = sections.minorVersion;
  artifact.residentOffset = sections.residentOffset;
  artifact.residentBytes = sections.residentBytes;
  artifact.recordsOffset = sections.recordsOffset;
  artifact.recordsBytes = sections.recordsBytes;
  artifact.tokenizerOffset = sections.tokenizerOffset;
  artifact.tokenizerBytes = sections.tokenizerBytes;
  artifact.pathsOffset = sections.pathsOffset;
  artifact.pathsBytes = sections.pathsBytes;
  artifact.traceOffset = sections.traceOffset;
  artifact.traceBytes = sections.traceBytes;
  artifact.fileBytes = sections.fileBytes;
  std::span<const std::byte> manifest(reinterpret_cast<const std::byte *>(aligned.data()), size);
  if (!moert::decodeManifest(manifest, artifact).isOk() ||
      !moert::validateArtifact(artifact).isOk())
    return 0;
  (void)moert::expertPayloadBytes(artifact);
  for (const moert::MoeLayer &layer : artifact.moeLayers)
    for (const moert::Slice &slice : layer.experts.at(0).slices)
      if (!moert::sliceLayoutOf(layer, slice.format).isOk())
        std::abort(); // Validated shapes have a layout.
  return 0;
}
