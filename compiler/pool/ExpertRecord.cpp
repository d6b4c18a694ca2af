#include "compiler/pool/ExpertRecord.h"

#include "compiler/quantize/PackGrid.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"

#include <cstring>

using namespace moert;

namespace moec {

Result<std::vector<Slice>> recordSlices(const MoeLayer &layer,
                                        std::span<const ExpertFormat> formats) {
  std::vector<Slice> slices;
  uint64_t offset = 0;
  for (const ExpertFormat &format : formats) {
    MOERT_ASSIGN_OR_RETURN(SliceLayout layout, sliceLayoutOf(layer, format));
    Slice &slice = slices.emplace_back();
    slice.format = format;
    slice.offset = offset;
    slice.payloadBytes = layout.payloadBytes;
    slice.bytes = roundUp(layout.payloadBytes, kSliceAlignment);
    offset += slice.bytes;
  }
  return slices;
}

static void place(std::vector<std::byte> &record, uint64_t offset,
                  const std::vector<std::byte> &part) {
  if (!part.empty())
    std::memcpy(record.data() + offset, part.data(), part.size());
}

Result<std::vector<std::byte>> packRecord(const MoeLayer &layer,
                                          std::span<const GridMatrix *const> matrices,
                                          std::vector<Slice> &slices) {
  std::vector<std::byte> record(slices.back().offset + slices.back().bytes);
  for (size_t m = 0; m < matrices.size(); ++m) {
    const std::vector<WeightFormat> formats = formatsOf(slices, layer.matrices[m].part);
    MOERT_ASSIGN_OR_RETURN(std::vector<PackedWeights> packed, packGrid(*matrices[m], formats));
    for (size_t s = 0; s < slices.size(); ++s) {
      MOERT_ASSIGN_OR_RETURN(SliceLayout layout, sliceLayoutOf(layer, slices[s].format));
      MOERT_ASSIGN_OR_RETURN(MatrixLayout stored, layoutOf(layer.matrices[m].shape, formats[s]));
      uint64_t at = slices[s].offset + layout.matrixOffsets[m];
      place(record, at, packed[s].codes);
      for (size_t p = 0; p < packed[s].lowPlanes.size(); ++p)
        place(record, at + stored.planeOffsets[p + 1], packed[s].lowPlanes[p]);
      place(record, at + stored.rowScalesOffset, packed[s].rowScales);
      place(record, at + stored.scalesOffset, packed[s].scales);
      place(record, at + stored.offsetsOffset, packed[s].offsets);
    }
  }
  for (Slice &slice : slices)
    slice.checksum = checksum64(std::span(record).subspan(slice.offset, slice.payloadBytes));
  return record;
}

} // namespace moec
