#include "compiler/import/codecs/CodedWeight.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/HalfFloat.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace moec {

using moert::divideUp;
using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

using Kind = NumberFormat::Kind;

constexpr uint64_t kCodesPerWord = 8, kWordBytes = 4;
/// Size of one read of several lines.
constexpr uint64_t kReadBytes = 1 << 20;

/// Two cache lines of f32.
constexpr uint64_t kColumnsAtOnce = 32;

/// Elements [first, first + count).
struct Range {
  uint64_t first = 0, count = 0;
};

/// The elements that are shared by weights [first, first + count).
Range sharedRange(uint64_t first, uint64_t count, uint64_t perElement) {
  const uint64_t begin = first / perElement;
  return {begin, divideUp(first + count, perElement) - begin};
}

/// The bytes of a line that hold a range of its elements.
Range byteRange(const Plane &plane, const Range &along) {
  if (plane.format.kind != Kind::kNibble) {
    const uint64_t size = elementBytes(plane.format.kind);
    return {along.first * size, along.count * size};
  }
  if (plane.packing.isAcrossLines)
    return {along.first * kWordBytes, along.count * kWordBytes};
  const uint64_t alignment = plane.packing.lineAlignment;
  const Range groups = sharedRange(along.first, along.count, alignment);
  return {groups.first * alignment / 2, groups.count * alignment / 2};
}

float nibbleAt(const Plane &plane, const std::byte *word, uint32_t element) {
  const uint32_t nibble = plane.packing.nibbles[element];
  return plane.format.values[std::to_integer<uint32_t>(word[nibble / 2]) >> nibble % 2 * 4 & 15];
}

/// Converts a range of one line. `bytes` are those of byteRange().
void convertLine(const Plane &plane, uint64_t line, const Range &along, const std::byte *bytes,
                 float *out) {
  const auto convert = [&](auto stored, auto value) {
    for (uint64_t i = 0; i < along.count; ++i) {
      std::memcpy(&stored, bytes + i * sizeof stored, sizeof stored);
      out[i] = value(stored);
    }
  };
  const uint64_t start = along.first / plane.packing.lineAlignment * plane.packing.lineAlignment;
  switch (plane.format.kind) {
  case Kind::kF32:
    return convert(float{}, [](float value) { return value; });
  case Kind::kF16:
    return convert(uint16_t{}, moert::f16ToF32);
  case Kind::kBf16:
    return convert(uint16_t{}, moert::bf16ToF32);
  case Kind::kByte:
    return convert(uint8_t{}, [&](uint8_t code) { return plane.format.values[code]; });
  case Kind::kNibble:
    for (uint64_t i = 0; i < along.count; ++i) {
      const uint64_t element = along.first + i - start;
      out[i] = plane.packing.isAcrossLines
                   ? nibbleAt(plane, bytes + i * kWordBytes, uint32_t(line % kCodesPerWord))
                   : nibbleAt(plane, bytes + element / kCodesPerWord * kWordBytes,
                              uint32_t(element % kCodesPerWord));
    }
  }
}

/// Reads the wanted bytes of neighbouring stored lines, one read for all if lines are wanted whole.
Status readLines(const StoredTensors &stored, const Plane &plane, uint64_t matrix,
                 const Range &storedLines, const Range &bytes, std::span<std::byte> out) {
  const uint64_t lineBytes = plane.lineBytes();
  const uint64_t perRead = bytes.count == lineBytes ? storedLines.count : 1;
  for (uint64_t done = 0; done < storedLines.count; done += perRead) {
    const uint64_t offset =
        matrix * plane.matrixBytes() + (storedLines.first + done) * lineBytes + bytes.first;
    MOERT_RETURN_IF_ERROR(stored.read(plane.location, offset,
                                      out.subspan(done * bytes.count, perRead * bytes.count)));
  }
  return Status();
}

/// Stores lines as columns: out[i * outStride + line] = lines[line][i]. Whole cache lines of `out`
/// are written, since single elements at a stride of a power of two evict each other.
void storeColumns(const std::vector<float> &lines, uint64_t count, uint64_t length, float *out,
                  uint64_t outStride) {
  for (uint64_t i = 0; i < length; ++i)
    for (uint64_t line = 0; line < count; ++line)
      out[i * outStride + line] = lines[line * length + i];
}

/// Reads a rectangle of elements of one matrix, as rows of the weight.
Status readPlane(const StoredTensors &stored, const Plane &plane, uint64_t matrix,
                 const Range &rows, const Range &cols, std::span<float> out) {
  const Range &lines = plane.linesAreColumns ? cols : rows;
  const Range &along = plane.linesAreColumns ? rows : cols;
  const uint64_t linesPerWord = plane.packing.isAcrossLines ? kCodesPerWord : 1;
  const Range storedLines = sharedRange(lines.first, lines.count, linesPerWord);
  const Range bytes = byteRange(plane, along);
  const uint64_t atOnce =
      std::clamp<uint64_t>(kReadBytes / std::max<uint64_t>(1, bytes.count), 1, storedLines.count);
  std::vector<std::byte> buffer(atOnce * bytes.count);
  std::vector<float> columns(plane.linesAreColumns ? kColumnsAtOnce * along.count : 0);
  for (uint64_t done = 0; done < storedLines.count; done += atOnce) {
    const Range now = {storedLines.first + done, std::min(atOnce, storedLines.count - done)};
    MOERT_RETURN_IF_ERROR(readLines(stored, plane, matrix, now, bytes, buffer));
    const auto convert = [&](uint64_t line, float *to) {
      convertLine(plane, line, along,
                  buffer.data() + (line / linesPerWord - now.first) * bytes.count, to);
    };
    const uint64_t end =
        std::min(lines.first + lines.count, (now.first + now.count) * linesPerWord);
    uint64_t line = std::max(lines.first, now.first * linesPerWord);
    while (line < end && !plane.linesAreColumns) {
      convert(line, out.data() + (line - lines.first) * along.count);
      ++line;
    }
    while (line < end) {
      const uint64_t count = std::min(kColumnsAtOnce, end - line);
      for (uint64_t i = 0; i < count; ++i)
        convert(line + i, columns.data() + i * along.count);
      storeColumns(columns, count, along.count, out.data() + (line - lines.first), lines.count);
      line += count;
    }
  }
  return Status();
}

/// The scales or zero points of a region: a rectangle of elements.
struct SharedValues {
  Range rows, cols;
  std::vector<float> values;
};

/// `allCols` reads all columns, whose order the group numbers decide.
Result<SharedValues> readShared(const StoredTensors &stored, const Plane &plane,
                                const CodedRegion &region, bool allCols) {
  SharedValues shared;
  shared.rows = sharedRange(region.firstRow, region.rowCount, plane.rowsPerElement);
  shared.cols = allCols ? Range{0, plane.linesAreColumns ? plane.lines : plane.width}
                        : sharedRange(region.firstCol, region.colCount, plane.colsPerElement);
  shared.values.resize(shared.rows.count * shared.cols.count);
  MOERT_RETURN_IF_ERROR(
      readPlane(stored, plane, region.matrix, shared.rows, shared.cols, shared.values));
  return shared;
}

Status checkFinite(const StoredTensors &stored, const TensorLocation &location,
                   std::string_view noun, std::span<const float> values, uint64_t cols,
                   uint64_t firstRow, uint64_t firstCol) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return invalidInput(stored.subject(location), ": found the ", noun, " ",
                          std::isnan(values[i]) ? "NaN" : "infinity", " at row ",
                          firstRow + i / cols, ", column ", firstCol + i % cols,
                          ", expected a finite number");
  return Status();
}

Status applyGlobalScale(const StoredTensors &stored, const CodedWeight &weight, uint64_t matrix,
                        std::span<float> scales) {
  const Plane &plane = *weight.globalScale;
  float factor = 0;
  MOERT_RETURN_IF_ERROR(readPlane(stored, plane, weight.isGlobalShared ? 0 : matrix, {0, 1}, {0, 1},
                                  std::span(&factor, 1)));
  if (!std::isfinite(factor) || (weight.dividesByGlobalScale && factor == 0))
    return invalidInput(stored.subject(plane.location), ": found ", factor,
                        ", expected a finite number",
                        weight.dividesByGlobalScale ? " that is not zero" : "");
  for (float &scale : scales)
    scale = weight.dividesByGlobalScale ? scale / factor : scale * factor;
  return Status();
}

/// For each column of the region, the index of its column in `shared`.
Result<std::vector<uint64_t>> groupsOf(const StoredTensors &stored, const CodedWeight &weight,
                                       const CodedRegion &region, const SharedValues &shared) {
  std::vector<uint64_t> groups(region.colCount);
  if (!weight.groupOfColumn) {
    for (uint64_t i = 0; i < region.colCount; ++i)
      groups[i] = (region.firstCol + i) / weight.scales.colsPerElement - shared.cols.first;
    return groups;
  }
  std::vector<int32_t> numbers(region.colCount);
  MOERT_RETURN_IF_ERROR(stored.read(*weight.groupOfColumn, region.firstCol * sizeof(int32_t),
                                    std::as_writable_bytes(std::span(numbers))));
  for (uint64_t i = 0; i < region.colCount; ++i) {
    if (numbers[i] < 0 || uint64_t(numbers[i]) >= shared.cols.count)
      return invalidInput(stored.subject(*weight.groupOfColumn), ": found group ", numbers[i],
                          " for input ", region.firstCol + i, ", expected 0 to ",
                          shared.cols.count - 1);
    groups[i] = uint64_t(numbers[i]);
  }
  return groups;
}

Status computeRegion(const StoredTensors &stored, const CodedWeight &weight,
                     const CodedRegion &region, std::span<float> out) {
  std::vector<float> all(weight.rows * weight.cols);
  MOERT_RETURN_IF_ERROR(weight.compute(stored, all));
  MOERT_RETURN_IF_ERROR(
      checkFinite(stored, weight.codes.location, "result", all, weight.cols, 0, 0));
  for (uint64_t row = 0; row < region.rowCount; ++row)
    std::copy_n(all.data() + (region.firstRow + row) * weight.cols + region.firstCol,
                region.colCount, out.data() + row * region.colCount);
  return Status();
}

} // namespace

uint64_t Plane::lineBytes() const {
  return byteRange(*this, {0, width}).count;
}

uint64_t Plane::matrixBytes() const {
  return lineBytes() * (packing.isAcrossLines ? divideUp(lines, kCodesPerWord) : lines);
}

std::vector<TensorLocation> CodedWeight::tensors() const {
  std::vector<TensorLocation> all;
  if (view) {
    for (const RowView::Piece &piece : view->pieces)
      all.push_back(piece.location);
    return all;
  }
  if (compute)
    return {codes.location};
  all = {codes.location, scales.location};
  for (const std::optional<Plane> *plane : {&zeroPoints, &globalScale})
    if (*plane)
      all.push_back((*plane)->location);
  if (groupOfColumn)
    all.push_back(*groupOfColumn);
  return all;
}

std::vector<uint64_t> CodedWeight::shape() const {
  std::vector<uint64_t> shape;
  if (isVector)
    return {cols};
  if (matrices)
    shape.push_back(*matrices);
  shape.push_back(isTransposed ? cols : rows);
  shape.push_back(isTransposed ? rows : cols);
  return shape;
}

StoredType CodedWeight::plainType() const {
  if (view)
    return view->plainType();
  if (compute)
    return StoredType::kF32;
  const auto isFormat = [](const Plane &plane, const NumberFormat &format) {
    return plane.format.values.data() == format.values.data();
  };
  const bool isMicroscaled = isFormat(codes, e2m1Format()) && isFormat(scales, e8m0Format());
  return isMicroscaled && !zeroPoints && !globalScale ? StoredType::kBf16 : StoredType::kF32;
}

Status decodeRegion(const StoredTensors &stored, const CodedWeight &weight,
                    const CodedRegion &region, std::span<float> out) {
  if (weight.view)
    return decodeView(stored, *weight.view, region, out);
  if (weight.compute)
    return computeRegion(stored, weight, region, out);
  const bool isReordered = weight.groupOfColumn.has_value();
  MOERT_RETURN_IF_ERROR(readPlane(stored, weight.codes, region.matrix,
                                  {region.firstRow, region.rowCount},
                                  {region.firstCol, region.colCount}, out));
  MOERT_ASSIGN_OR_RETURN(SharedValues scales,
                         readShared(stored, weight.scales, region, isReordered));
  MOERT_RETURN_IF_ERROR(checkFinite(stored, weight.scales.location, "scale", scales.values,
                                    scales.cols.count, scales.rows.first, scales.cols.first));
  if (weight.globalScale)
    MOERT_RETURN_IF_ERROR(applyGlobalScale(stored, weight, region.matrix, scales.values));
  SharedValues zeros;
  if (weight.zeroPoints) {
    MOERT_ASSIGN_OR_RETURN(zeros, readShared(stored, *weight.zeroPoints, region, isReordered));
  }
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> groups,
                         groupsOf(stored, weight, region, scales));
  for (uint64_t r = 0; r < region.rowCount; ++r) {
    const auto rowOf = [&](const Plane &plane, const SharedValues &shared) {
      return shared.values.data() +
             ((region.firstRow + r) / plane.rowsPerElement - shared.rows.first) * shared.cols.count;
    };
    float *const row = out.data() + r * region.colCount;
    if (weight.zeroPoints) {
      const float *const zeroRow = rowOf(*weight.zeroPoints, zeros);
      for (uint64_t c = 0; c < region.colCount; ++c)
        row[c] -= zeroRow[groups[c]];
    }
    const float *const scaleRow = rowOf(weight.scales, scales);
    for (uint64_t c = 0; c < region.colCount; ++c)
      row[c] *= scaleRow[groups[c]];
  }
  return checkFinite(stored, weight.codes.location, "value", out, region.colCount, region.firstRow,
                     region.firstCol);
}

} // namespace moec
