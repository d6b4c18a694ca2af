#include "compiler/import/codecs/KeptRows.h"

#include "compiler/import/codecs/GgmlBlocks.h"
#include "runtime/base/HalfFloat.h"
#include "runtime/format/WeightLayout.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace moec {

using moert::invalidInput;
using moert::Status;

namespace {

constexpr uint64_t kGroup = 32, kGroupBytes = kGroup / 2;

/// Bytes [first, first + out.size()) of a row's line.
Status readLine(const StoredTensors &stored, const Plane &plane, uint64_t matrix, uint64_t row,
                uint64_t first, std::span<std::byte> out) {
  return stored.read(plane.location, matrix * plane.matrixBytes() + row * plane.lineBytes() + first,
                     out);
}

/// Whether a code of the group is beyond f32's range with this scale.
bool isInfinite(std::span<const std::byte> codes, uint8_t scale) {
  const auto isBeyond = [scale](uint32_t code) {
    return std::isinf(moert::e2m1ToF32(uint8_t(code)) * moert::e8m0ToF32(scale));
  };
  return std::any_of(codes.begin(), codes.end(), [&](std::byte both) {
    return isBeyond(uint32_t(both) & 15) || isBeyond(uint32_t(both) >> 4);
  });
}

Status checkRow(const StoredTensors &stored, const CodedWeight &weight, uint64_t row,
                uint64_t firstGroup, std::span<const std::byte> codes,
                std::span<const std::byte> scales) {
  for (size_t group = 0; group < scales.size(); ++group) {
    const auto scale = uint8_t(scales[group]);
    if (scale == moert::kNanE8M0)
      return invalidInput(stored.subject(weight.tensors().back()), ": found the scale NaN at row ",
                          row, ", column ", firstGroup + group, ", expected a finite number");
    if (scale > moert::kSafeE8M0 &&
        isInfinite(codes.subspan(group * kGroupBytes, kGroupBytes), scale))
      return invalidInput(stored.subject(weight.tensors().front()),
                          ": found the value infinity at row ", row, " in group ",
                          firstGroup + group, ", expected a finite number");
  }
  return Status();
}

Status readMxfp4Row(const StoredTensors &stored, const CodedWeight &weight,
                    const CodedRegion &region, uint64_t row, std::span<std::byte> out) {
  const uint64_t firstGroup = region.firstCol / kGroup, groups = region.colCount / kGroup;
  const std::span<std::byte> codes = out.first(groups * kGroupBytes), scales = out.last(groups);
  if (weight.view) {
    std::vector<std::byte> blocks(out.size());
    MOERT_RETURN_IF_ERROR(
        readKeptView(stored, *weight.view, region.matrix, row, region.firstCol, blocks));
    splitMxfp4Blocks(blocks, codes, scales);
  } else {
    MOERT_RETURN_IF_ERROR(
        readLine(stored, weight.codes, region.matrix, row, firstGroup * kGroupBytes, codes));
    MOERT_RETURN_IF_ERROR(readLine(stored, weight.scales, region.matrix, row, firstGroup, scales));
  }
  return checkRow(stored, weight, row, firstGroup, codes, scales);
}

Status readBlocks(const StoredTensors &stored, const RowView &view, const CodedRegion &region,
                  uint64_t row, StoredType type, std::span<std::byte> out) {
  MOERT_RETURN_IF_ERROR(readKeptView(stored, view, region.matrix, row, region.firstCol, out));
  const moert::WeightBlock block = moert::blockOf(weightKindOf(type));
  for (size_t first = 0; first < out.size(); first += block.bytes)
    for (uint32_t half : block.halves) {
      const std::byte *low = &out[first + half];
      const float scale = moert::f16ToF32(uint16_t(uint32_t(low[0]) | uint32_t(low[1]) << 8));
      if (!std::isfinite(scale))
        return invalidInput(stored.subject(view.pieces[view.rowAt(row).piece].location),
                            ": found the scale ", scale, " at row ", row, " in block ",
                            first / block.bytes, ", expected a finite number");
    }
  return Status();
}

} // namespace

std::optional<StoredType> keptTypeOf(const CodedWeight &weight) {
  if (weight.view)
    return weight.view->keptType();
  if (weight.compute)
    return std::nullopt;
  const auto isPlane = [](const Plane &plane, const NumberFormat &format) {
    return plane.format.values.data() == format.values.data() && !plane.linesAreColumns &&
           plane.rowsPerElement == 1;
  };
  const NibblePacking packing, &found = weight.codes.packing;
  const bool isMxfp4 = isPlane(weight.codes, e2m1Format()) &&
                       isPlane(weight.scales, e8m0Format()) && weight.codes.colsPerElement == 1 &&
                       weight.scales.colsPerElement == kGroup && weight.cols % kGroup == 0 &&
                       found.nibbles == packing.nibbles && !found.isAcrossLines &&
                       !weight.zeroPoints && !weight.globalScale && !weight.groupOfColumn;
  return isMxfp4 ? std::optional(StoredType::kMxfp4) : std::nullopt;
}

Status readKept(const StoredTensors &stored, const CodedWeight &weight, const CodedRegion &region,
                std::span<std::byte> out) {
  const std::optional<StoredType> type = keptTypeOf(weight);
  assert(type && region.firstCol % storedBlock(*type).elements == 0 &&
         region.colCount % storedBlock(*type).elements == 0 &&
         out.size() == storedBytes(*type, region.rowCount * region.colCount));
  const uint64_t rowBytes = storedBytes(*type, region.colCount);
  for (uint64_t r = 0; r < region.rowCount; ++r) {
    const uint64_t row = region.firstRow + r;
    const std::span<std::byte> to = out.subspan(r * rowBytes, rowBytes);
    MOERT_RETURN_IF_ERROR(hasBlocks(*type)
                              ? readBlocks(stored, *weight.view, region, row, *type, to)
                              : readMxfp4Row(stored, weight, region, row, to));
  }
  return Status();
}

} // namespace moec
