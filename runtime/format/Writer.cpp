#include "runtime/format/Writer.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/format/FilePrefix.h"
#include "runtime/format/Manifest.h"
#include "runtime/format/Validate.h"

namespace moert {

// The sizes come from the writer's own model, and layoutOf() bounds each matrix to 2^49 bytes; a
// file ends far below 2^62, which sealArtifact() checks by the rules of its reader.
static Status layOutResidents(Artifact &artifact) {
  uint64_t end = 0;
  for (size_t i = 0; i < artifact.residents.size(); ++i) {
    ResidentWeight &weight = artifact.residents[i];
    auto layout = layoutOf(weight.shape, weight.format);
    if (!layout.isOk())
      return layout.status().withContext(strCat("resident weight ", weight.name));
    weight.offset = roundUp(end, kResidentAlignment);
    weight.bytes = layout->bytes;
    end = weight.offset + weight.bytes;
  }
  artifact.residentBytes = end;
  return {};
}

static Status layOutExpert(const MoeLayer &layer, Expert &expert, uint64_t fileOffset,
                           uint32_t pageBytes) {
  expert.fileOffset = fileOffset;
  expert.bytes = 0;
  for (size_t s = 0; s < expert.slices.size(); ++s) {
    Slice &slice = expert.slices[s];
    MOERT_ASSIGN_OR_RETURN(SliceLayout layout, sliceLayoutOf(layer, slice.format));
    slice.offset = expert.bytes;
    slice.payloadBytes = layout.payloadBytes;
    expert.bytes =
        roundUp(slice.offset + layout.payloadBytes, endAlignmentOf(expert, s, pageBytes));
    slice.bytes = expert.bytes - slice.offset;
  }
  return {};
}

static Status layOutRecords(Artifact &artifact) {
  uint64_t end = artifact.recordsOffset;
  for (MoeLayer &layer : artifact.moeLayers)
    for (size_t e = 0; e < layer.experts.size(); ++e) {
      Status status = layOutExpert(layer, layer.experts[e], end, artifact.pageBytes);
      if (!status.isOk())
        return std::move(status).withContext(strCat("layer ", layer.layer, ", expert ", e));
      end += layer.experts[e].bytes;
    }
  artifact.recordsBytes = end - artifact.recordsOffset;
  return {};
}

// An absent section has offset 0 and size 0.
static uint64_t placeSection(uint64_t &offset, uint64_t bytes, uint64_t end) {
  offset = bytes == 0 ? 0 : end;
  return roundUp(end + bytes, kSectionAlignment);
}

Status layOutArtifact(Artifact &artifact, const RawSectionBytes &raw) {
  artifact.majorVersion = kFormatMajor;
  artifact.minorVersion = kFormatMinor;
  MOERT_RETURN_IF_ERROR(layOutResidents(artifact));
  uint64_t end = placeSection(artifact.residentOffset, artifact.residentBytes, kPrefixBytes);
  artifact.recordsOffset = end;
  MOERT_RETURN_IF_ERROR(layOutRecords(artifact));
  end = placeSection(artifact.recordsOffset, artifact.recordsBytes, end);
  artifact.tokenizerBytes = raw.tokenizer;
  end = placeSection(artifact.tokenizerOffset, raw.tokenizer, end);
  artifact.pathsBytes = raw.paths;
  end = placeSection(artifact.pathsOffset, raw.paths, end);
  artifact.traceBytes = raw.trace;
  end = placeSection(artifact.traceOffset, raw.trace, end);
  // The manifest follows; sealArtifact() computes its size.
  artifact.fileBytes = end;
  return {};
}

Result<SealedArtifact> sealArtifact(Artifact &artifact) {
  SealedArtifact sealed;
  sealed.manifest = encodeManifest(artifact);
  FilePrefix prefix;
  prefix.majorVersion = artifact.majorVersion;
  prefix.minorVersion = artifact.minorVersion;
  uint64_t end = kPrefixBytes;
  auto addSection = [&](SectionKind kind, uint64_t bytes, uint64_t checksum) {
    if (bytes == 0)
      return;
    prefix.sections.push_back({kind, end, bytes, checksum});
    end = roundUp(end + bytes, kSectionAlignment);
  };
  addSection(SectionKind::kResident, artifact.residentBytes, artifact.residentChecksum);
  addSection(SectionKind::kRecords, artifact.recordsBytes, 0);
  addSection(SectionKind::kTokenizer, artifact.tokenizerBytes, artifact.tokenizerChecksum);
  addSection(SectionKind::kPaths, artifact.pathsBytes, artifact.pathsChecksum);
  addSection(SectionKind::kTrace, artifact.traceBytes, artifact.traceChecksum);
  sealed.manifestOffset = end;
  addSection(SectionKind::kManifest, sealed.manifest.size(), checksum64(sealed.manifest));
  artifact.fileBytes = prefix.fileBytes = end;
  MOERT_RETURN_IF_ERROR(validateArtifact(artifact));
  sealed.manifest.resize(end - sealed.manifestOffset);
  sealed.prefix = encodePrefix(prefix);
  MOERT_RETURN_IF_ERROR(decodePrefix(sealed.prefix, end).status());
  return sealed;
}

} // namespace moert
