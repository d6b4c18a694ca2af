// Lays out a .moe file and builds the bytes of its two ends. The caller writes the file in this
// order:
//
//   1. layOutArtifact() fixes every offset and size but the manifest's.
//   2. The caller writes resident weights, records, the tokenizer's table, activation-path tables
//      and trace at their offsets, with zeros between them, and sets their checksums in the
//      Artifact.
//   3. sealArtifact() returns the manifest, to be written at its offset, and the prefix page, to be
//      written at offset 0 at the very end.
//
// The same Artifact gives the same bytes, on any machine.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moert {

/// Version of the files that sealArtifact() writes; docs/format.md has the versioning rules.
constexpr uint16_t kFormatMajor = 2;
constexpr uint16_t kFormatMinor = 1;

/// Sizes of the sections that do not follow from the rest; 0: absent.
struct RawSectionBytes {
  uint64_t tokenizer = 0, paths = 0, trace = 0;
};

/// Fills in the version, all offsets and the sizes of resident weights, slices, records and
/// sections. Needs the shapes and formats. Residents and records keep their order.
Status layOutArtifact(Artifact &artifact, const RawSectionBytes &raw);

struct SealedArtifact {
  std::vector<std::byte> prefix; // One page, at offset 0.
  uint64_t manifestOffset = 0;
  std::vector<std::byte> manifest; // With its padding; the file ends after it.
};

/// Returns the two ends of a laid out artifact whose checksums are all set; sets fileBytes. Refuses
/// what a reader would refuse.
Result<SealedArtifact> sealArtifact(Artifact &artifact);

} // namespace moert
