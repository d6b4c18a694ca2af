// Writing a .moe file: where everything goes, and the bytes of its two ends. Whoever writes the
// file does it in this order:
//
//   1. layOutArtifact() fixes every offset and size but the manifest's.
//   2. Resident weights, records, the tokenizer's table, paths and trace are written where it says,
//      with zeros between them; their checksums are noted in the Artifact as they are known.
//   3. sealArtifact() gives the manifest, to be written at its offset, and the prefix page, to be
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

/// Version of the files that sealArtifact() writes; docs/format.md has the rules of versions.
constexpr uint16_t kFormatMajor = 2;
constexpr uint16_t kFormatMinor = 0;

/// Sections whose size does not follow from the rest; 0: absent.
struct RawSectionBytes {
  uint64_t tokenizer = 0, paths = 0, trace = 0;
};

/// Fills in the version, all offsets and sizes of resident weights, slices, records and sections.
/// Needs the shapes and formats. Residents and records keep their order.
Status layOutArtifact(Artifact &artifact, const RawSectionBytes &raw);

struct SealedArtifact {
  std::vector<std::byte> prefix; // One page, at offset 0.
  uint64_t manifestOffset = 0;
  std::vector<std::byte> manifest; // With its padding: the file ends behind it.
};

/// The two ends of a laid out artifact, all of whose checksums are set; sets fileBytes. Refuses
/// what a reader would refuse.
Result<SealedArtifact> sealArtifact(Artifact &artifact);

} // namespace moert
