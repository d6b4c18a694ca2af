#include "runtime/format/Verify.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/HalfFloat.h"
#include "runtime/format/FilePrefix.h"

#include <algorithm>
#include <cmath>

namespace moert {

namespace {

constexpr uint64_t kChunkBytes = uint64_t(8) << 20;

/// Reads a file from front to back: every byte once, and the scales of kept kinds once more.
/// Borrows the source.
class Verification {
public:
  Verification(const ByteSource &file, const std::function<void(uint64_t, uint64_t)> &listener)
      : source(file), progress(listener), chunk(std::min(kChunkBytes, file.bytes())) {}

  Status run(const Artifact &artifact);

private:
  Status checkContent(uint64_t offset, uint64_t bytes, uint64_t checksum, const std::string &what);
  Status checkPadding(uint64_t offset, uint64_t end, const std::string &what);
  Status checkSection(uint64_t offset, uint64_t bytes, uint64_t checksum, const char *what);
  Status checkRecords(const Artifact &artifact);
  Status checkKept(const MoeLayer &layer, const Slice &slice, uint64_t offset);
  Status checkMxfp4(const MatrixLayout &layout, uint64_t offset);
  Status checkMxfp4Group(uint64_t offset, uint32_t lane, uint8_t scale);
  Status checkBlocks(const MatrixLayout &layout, WeightKind kind, uint64_t offset);

  void advance(uint64_t bytes) {
    done += bytes;
    if (progress)
      progress(done, source.bytes());
  }

  const ByteSource &source;
  const std::function<void(uint64_t, uint64_t)> &progress;
  std::vector<std::byte> chunk;
  uint64_t done = 0;
};

Status Verification::checkContent(uint64_t offset, uint64_t bytes, uint64_t checksum,
                                  const std::string &what) {
  ChecksumStream stream;
  for (uint64_t end = offset + bytes; offset < end;) {
    std::span<std::byte> part =
        std::span(chunk).first(std::min<uint64_t>(chunk.size(), end - offset));
    MOERT_RETURN_IF_ERROR(source.read(offset, part).withContext(what));
    stream.update(part);
    advance(part.size());
    offset += part.size();
  }
  if (stream.digest() != checksum)
    return invalidInput(what, " is damaged: its checksum is ", formatChecksum(stream.digest()),
                        ", expected ", formatChecksum(checksum));
  return {};
}

Status Verification::checkPadding(uint64_t offset, uint64_t end, const std::string &what) {
  std::span<std::byte> padding = std::span(chunk).first(end - offset);
  MOERT_RETURN_IF_ERROR(source.read(offset, padding).withContext(what));
  advance(padding.size());
  for (size_t i = 0; i < padding.size(); ++i)
    if (padding[i] != std::byte(0))
      return invalidInput("the padding after ", what, " is damaged: the byte at offset ",
                          offset + i, " is ", uint32_t(padding[i]), ", expected 0");
  return {};
}

Status Verification::checkSection(uint64_t offset, uint64_t bytes, uint64_t checksum,
                                  const char *what) {
  if (bytes == 0)
    return {};
  std::string name = strCat("section ", what);
  MOERT_RETURN_IF_ERROR(checkContent(offset, bytes, checksum, name));
  return checkPadding(offset + bytes, roundUp(offset + bytes, kSectionAlignment), name);
}

Status Verification::checkRecords(const Artifact &artifact) {
  for (const MoeLayer &layer : artifact.moeLayers)
    for (size_t e = 0; e < layer.experts.size(); ++e) {
      const Expert &expert = layer.experts[e];
      for (size_t s = 0; s < expert.slices.size(); ++s) {
        const Slice &slice = expert.slices[s];
        std::string name =
            strCat("the record of layer ", layer.layer, ", expert ", e, ", slice ", s);
        uint64_t offset = expert.fileOffset + slice.offset;
        MOERT_RETURN_IF_ERROR(checkContent(offset, slice.payloadBytes, slice.checksum, name));
        MOERT_RETURN_IF_ERROR(
            checkPadding(offset + slice.payloadBytes, offset + slice.bytes, name));
        MOERT_RETURN_IF_ERROR(checkKept(layer, slice, offset).withContext(name));
      }
    }
  return {};
}

Status Verification::checkKept(const MoeLayer &layer, const Slice &slice, uint64_t offset) {
  MOERT_ASSIGN_OR_RETURN(SliceLayout stored, sliceLayoutOf(layer, slice.format));
  for (size_t m = 0; m < layer.matrices.size(); ++m) {
    const ExpertMatrix &matrix = layer.matrices[m];
    const WeightFormat &format = formatOf(slice.format, matrix.part);
    if (!isKept(format.kind))
      continue;
    MOERT_ASSIGN_OR_RETURN(MatrixLayout layout, layoutOf(matrix.shape, format));
    const uint64_t first = offset + stored.matrixOffsets[m];
    MOERT_RETURN_IF_ERROR((format.kind == WeightKind::kMxfp4
                               ? checkMxfp4(layout, first)
                               : checkBlocks(layout, format.kind, first))
                              .withContext(strCat("matrix ", m)));
  }
  return {};
}

// The f16 of every block are numbers: then all of its values are finite in f32.
Status Verification::checkBlocks(const MatrixLayout &layout, WeightKind kind, uint64_t offset) {
  const WeightBlock block = blockOf(kind);
  const uint64_t blockBytes = uint64_t(block.bytes) * kPanelRows,
                 blocks = layout.bytes / blockBytes;
  for (uint64_t first = 0; first < blocks;) {
    const uint64_t count = std::min(chunk.size() / blockBytes, blocks - first);
    std::span<std::byte> part = std::span(chunk).first(count * blockBytes);
    MOERT_RETURN_IF_ERROR(source.read(offset + first * blockBytes, part));
    for (uint64_t i = 0; i < count * kPanelRows; ++i)
      for (uint32_t half : block.halves) {
        const std::byte *low =
            &part[i / kPanelRows * blockBytes + half * kPanelRows + i % kPanelRows];
        const auto bits = uint16_t(uint32_t(low[0]) | uint32_t(low[kPanelRows]) << 8);
        if (!std::isfinite(f16ToF32(bits)))
          return invalidInput("block ", first * kPanelRows + i, " of ", nameOf(kind),
                              " has the scale ", f16ToF32(bits), ", expected a finite number");
      }
    first += count;
  }
  return {};
}

// Every scale is a number, and every value is finite in f32.
Status Verification::checkMxfp4(const MatrixLayout &layout, uint64_t offset) {
  const uint64_t scales = uint64_t(layout.panels) * layout.groupsPerRow * kPanelRows;
  for (uint64_t first = 0; first < scales;) {
    std::span<std::byte> part =
        std::span(chunk).first(std::min<uint64_t>(chunk.size(), scales - first));
    MOERT_RETURN_IF_ERROR(source.read(offset + layout.scalesOffset + first, part));
    for (uint64_t i = first; i < first + part.size(); ++i) {
      const auto scale = uint8_t(part[i - first]);
      if (scale == kNanE8M0)
        return invalidInput("scale ", i, " is NaN, expected a power of two");
      if (scale > kSafeE8M0)
        MOERT_RETURN_IF_ERROR(checkMxfp4Group(offset + i / kPanelRows * kMxfp4GroupBytes,
                                              uint32_t(i % kPanelRows), scale)
                                  .withContext(strCat("scale ", i, " is 2^", scale - 127)));
    }
    first += part.size();
  }
  return {};
}

/// The codes of one output in the group of a panel that is stored at `offset`.
Status Verification::checkMxfp4Group(uint64_t offset, uint32_t lane, uint8_t scale) {
  std::byte group[kMxfp4GroupBytes];
  MOERT_RETURN_IF_ERROR(source.read(offset, group));
  for (uint32_t pair = 0; pair < kMxfp4Group / 2; ++pair) {
    const auto codes = uint32_t(group[pair / 4 * kPanelRows * 4 + lane * 4 + pair % 4]);
    for (const uint32_t code : {codes & 15, codes >> 4})
      if (std::isinf(e2m1ToF32(uint8_t(code)) * e8m0ToF32(scale)))
        return invalidInput("the code ", e2m1ToF32(uint8_t(code)),
                            " is infinite with it, expected finite values");
  }
  return {};
}

Status Verification::run(const Artifact &artifact) {
  advance(kPrefixBytes); // readArtifact() has checked it, and the manifest.
  MOERT_RETURN_IF_ERROR(checkSection(artifact.residentOffset, artifact.residentBytes,
                                     artifact.residentChecksum, nameOf(SectionKind::kResident)));
  MOERT_RETURN_IF_ERROR(checkRecords(artifact));
  MOERT_RETURN_IF_ERROR(checkSection(artifact.tokenizerOffset, artifact.tokenizerBytes,
                                     artifact.tokenizerChecksum, nameOf(SectionKind::kTokenizer)));
  MOERT_RETURN_IF_ERROR(checkSection(artifact.pathsOffset, artifact.pathsBytes,
                                     artifact.pathsChecksum, nameOf(SectionKind::kPaths)));
  MOERT_RETURN_IF_ERROR(checkSection(artifact.traceOffset, artifact.traceBytes,
                                     artifact.traceChecksum, nameOf(SectionKind::kTrace)));
  MOERT_RETURN_IF_ERROR(checkPadding(artifact.manifestOffset + artifact.manifestBytes,
                                     artifact.fileBytes, "section manifest"));
  advance(artifact.manifestBytes);
  return {};
}

} // namespace

Status verifyArtifact(const ByteSource &source,
                      const std::function<void(uint64_t done, uint64_t total)> &progress) {
  MOERT_ASSIGN_OR_RETURN(Artifact artifact, readArtifact(source));
  return Verification(source, progress).run(artifact).withContext(source.name());
}

} // namespace moert
