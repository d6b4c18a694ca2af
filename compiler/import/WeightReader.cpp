#include "compiler/import/WeightReader.h"

#include "compiler/import/JsonScan.h"
#include "compiler/import/codecs/KeptRows.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/HalfFloat.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

namespace moec {

using moert::bf16ToF32;
using moert::f16ToF32;
using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

static_assert(std::endian::native == std::endian::little, "weights are read without swapping");

/// A part of a weight, resolved against its actual shape.
struct StoredPart {
  enum class Layout {
    kRows,       // Logical row r of block 0 is stored row firstRow + r * rowStep.
    kTransposed, // It is stored column firstRow + r * rowStep.
    kVector,     // The only row; its element i is stored element firstRow + i * rowStep (with
                 // stackedVectors, of all elements).
  };
  WeightTensor weight;
  StoredType type = StoredType::kF32;
  bool isKept = false; // Quantized, in a type that is kept.
  Layout layout = Layout::kRows;
  uint64_t matrix = 0; // The index.
  uint64_t offset = 0; // Start of the matrix in the tensor's data; unused if quantized.
  uint64_t inner = 0;  // Elements per row of the shape.
};

/// Rows of one block of a part.
struct BlockRows {
  uint64_t firstStored; // The stored row (kTransposed: column) of the first one.
  uint64_t firstInput;  // The stored row of the first input of kTransposed.
  uint32_t count;
};

namespace {

/// Buffer size for strided reads.
constexpr size_t kGatherBytes = 1 << 20;

/// The rows [firstRow, firstRow + rowCount) of a part up to the end of a block.
BlockRows rowsInBlock(const WeightSource &source, const StoredPart &part, uint32_t firstRow,
                      uint32_t rowCount) {
  const uint32_t blockRows = source.rows / source.blocks;
  const uint32_t inBlock = firstRow % blockRows;
  const uint64_t block = uint64_t{firstRow / blockRows} * source.blockStep;
  const uint64_t first = source.firstRow + uint64_t{inBlock} * source.rowStep;
  const bool isTransposed = part.layout == StoredPart::Layout::kTransposed;
  return {isTransposed ? first : first + block, isTransposed ? block : 0,
          std::min(rowCount, blockRows - inBlock)};
}

/// The type in which a quantized part can be kept: its rows are rows of codes and have whole
/// blocks.
std::optional<StoredType> keptPartType(const WeightSource &source, const WeightTensor &weight,
                                       StoredPart::Layout layout) {
  if (!weight.coded || layout == StoredPart::Layout::kVector || source.addsOne)
    return std::nullopt;
  const std::optional<StoredType> type = keptTypeOf(*weight.coded);
  const bool isTransposed = layout == StoredPart::Layout::kTransposed;
  const size_t elements = type ? storedBlock(*type).elements : 1;
  const bool isWhole = isTransposed == weight.coded->isTransposed && source.cols % elements == 0 &&
                       (!isTransposed || source.blockStep % elements == 0);
  return isWhole ? type : std::nullopt;
}

/// Widens 16-bit elements in the upper half of `values`' memory to f32, in place. Element i is
/// written to bytes [4i, 4i + 4), and unread elements begin at byte 2n + 2i or later, so copying
/// each block out first loses none.
template <float (*convert)(uint16_t)> void widenInPlace(std::span<float> values) {
  std::array<uint16_t, 256> block;
  const std::byte *source = reinterpret_cast<const std::byte *>(values.data()) + 2 * values.size();
  for (size_t i = 0; i < values.size(); i += block.size()) {
    const size_t count = std::min(block.size(), values.size() - i);
    std::memcpy(block.data(), source + 2 * i, 2 * count);
    for (size_t k = 0; k < count; ++k)
      values[i + k] = convert(block[k]);
  }
}

} // namespace

/// Checks every field of the source against the stored shape, so that no read can leave the tensor,
/// even without checkTensors().
Result<StoredPart> WeightReader::resolve(const WeightSource &source) const {
  MOERT_ASSIGN_OR_RETURN(WeightTensor weight, store.weight(source.tensor));
  const auto refuse = [&](std::string_view expected) {
    return invalidInput(store.stored().subject(weight.location), ": found ",
                        tensorTypeName(weight.location.tensor->type), " ", shapeText(weight.shape),
                        ", expected ", expected);
  };
  if (!weight.type || isInteger(*weight.type) != source.integers)
    return refuse(source.integers ? "I32 or I64" : "BF16, F16 or F32");

  std::span<const uint64_t> shape = weight.shape;
  uint64_t index = 0;
  if (source.index) {
    index = *source.index;
    if (shape.empty() || index >= shape[0])
      return refuse(strCat("a leading dimension above ", index));
    shape = shape.subspan(1);
  }
  const uint64_t elements = shape.size() == 2 ? shape[0] * shape[1] : 0;
  if (source.stackedVectors != 0) {
    if (source.index || source.transposed || source.rows != 1 ||
        (weight.coded && !weight.coded->view) || shape.size() != 2 ||
        shape[0] != source.stackedVectors)
      return refuse(strCat(source.stackedVectors, " vectors, not quantized"));
    shape = std::span(&elements, 1);
  }
  if (source.rows == 0 || source.cols == 0 || source.rowStep == 0 || source.blocks == 0 ||
      source.rows % source.blocks != 0 || (shape.size() != 1 && shape.size() != 2) ||
      (shape.size() == 1 && source.rows != 1))
    return refuse(strCat("a matrix that holds ", source.rows, " x ", source.cols));

  using Layout = StoredPart::Layout;
  const Layout layout = shape.size() == 1   ? Layout::kVector
                        : source.transposed ? Layout::kTransposed
                                            : Layout::kRows;
  const uint64_t steps = layout == Layout::kVector ? source.cols : source.rows / source.blocks;
  const uint64_t lastBlock = (source.blocks - uint64_t{1}) * source.blockStep;
  const uint64_t last =
      source.firstRow + (steps - 1) * source.rowStep + (layout == Layout::kRows ? lastBlock : 0);
  const uint64_t available = layout == Layout::kRows ? shape.front() : shape.back();
  const uint64_t inputs = layout == Layout::kTransposed ? shape.front() : shape.back();
  const bool hasInputs = layout == Layout::kTransposed && source.blockStep != 0
                             ? lastBlock + source.cols <= inputs
                             : layout == Layout::kVector || inputs == source.cols;
  if (last >= available || !hasInputs)
    return refuse(strCat("a part of ", source.rows, " x ", source.cols, " up to row ", last));
  // The header was checked: the product of all dimensions is the tensor's size and does not
  // overflow.
  const uint64_t matrixElements = layout == Layout::kVector ? shape[0] : shape[0] * shape[1];
  const uint64_t inner = shape.back();
  const std::optional<StoredType> kept = keptPartType(source, weight, layout);
  const StoredType type = kept.value_or(*weight.type);
  const uint64_t offset = weight.coded ? 0 : storedBytes(type, index * matrixElements);
  return StoredPart{std::move(weight), type, kept.has_value(), layout, index, offset, inner};
}

/// Reads `count` elements that are `stride` elements apart, and stores them outStride bytes apart.
Status WeightReader::gather(const StoredPart &part, uint64_t firstElement, uint64_t stride,
                            size_t count, std::byte *out, size_t outStride) const {
  const size_t size = storedBlock(part.type).bytes;
  const size_t perRead = static_cast<size_t>(std::max<uint64_t>(1, kGatherBytes / size / stride));
  std::vector<std::byte> buffer((std::min(perRead, count) - 1) * stride * size + size);
  for (size_t done = 0; done < count; done += perRead) {
    const size_t now = std::min(perRead, count - done);
    const std::span<std::byte> piece(buffer.data(), (now - 1) * stride * size + size);
    MOERT_RETURN_IF_ERROR(store.stored().read(
        part.weight.location, part.offset + (firstElement + done * stride) * size, piece));
    for (size_t i = 0; i < now; ++i)
      std::memcpy(out + (done + i) * outStride, piece.data() + i * stride * size, size);
  }
  return Status();
}

Status WeightReader::readPart(const WeightSource &source, const StoredPart &part, uint32_t firstRow,
                              uint32_t rowCount, std::span<std::byte> out) const {
  const size_t rowBytes = storedBytes(part.type, source.cols);
  for (uint32_t done = 0; done < rowCount;) {
    const BlockRows rows = rowsInBlock(source, part, firstRow + done, rowCount - done);
    MOERT_RETURN_IF_ERROR(
        readBlock(source, part, rows, out.subspan(done * rowBytes, rows.count * rowBytes)));
    done += rows.count;
  }
  return Status();
}

Status WeightReader::readBlock(const WeightSource &source, const StoredPart &part,
                               const BlockRows &rows, std::span<std::byte> out) const {
  if (part.isKept)
    return readKeptBlock(source, part, rows, out);
  const size_t size = storedBlock(part.type).bytes;
  const size_t rowBytes = source.cols * size;
  const uint64_t first = rows.firstStored;
  if (part.layout == StoredPart::Layout::kVector)
    return gather(part, first, source.rowStep, source.cols, out.data(), size);
  if (part.layout == StoredPart::Layout::kTransposed) {
    for (uint64_t input = 0; input < source.cols; ++input)
      MOERT_RETURN_IF_ERROR(gather(part, (rows.firstInput + input) * part.inner + first,
                                   source.rowStep, rows.count, out.data() + input * size,
                                   rowBytes));
    return Status();
  }
  if (source.rowStep == 1 || rows.count == 1)
    return store.stored().read(part.weight.location, part.offset + first * part.inner * size, out);
  for (uint64_t row = 0; row < rows.count; ++row) {
    const uint64_t stored = first + row * source.rowStep;
    MOERT_RETURN_IF_ERROR(store.stored().read(part.weight.location,
                                              part.offset + stored * part.inner * size,
                                              out.subspan(row * rowBytes, rowBytes)));
  }
  return Status();
}

Status WeightReader::readKeptBlock(const WeightSource &source, const StoredPart &part,
                                   const BlockRows &rows, std::span<std::byte> out) const {
  const size_t rowBytes = storedBytes(part.type, source.cols);
  const uint64_t rowsAtOnce = source.rowStep == 1 ? rows.count : 1;
  for (uint64_t done = 0; done < rows.count; done += rowsAtOnce)
    MOERT_RETURN_IF_ERROR(readKept(store.stored(), *part.weight.coded,
                                   {part.matrix, rows.firstStored + done * source.rowStep,
                                    rowsAtOnce, rows.firstInput, source.cols},
                                   out.subspan(done * rowBytes, rowsAtOnce * rowBytes)));
  return Status();
}

/// Decodes columns of the coded matrix as rows of `out`. A few rows at a time, which bounds the
/// memory for the untransposed values.
Status WeightReader::decodeColumns(const CodedWeight &weight, const CodedRegion &region,
                                   std::span<float> out) const {
  const uint64_t rowsAtOnce =
      std::clamp<uint64_t>(kGatherBytes / sizeof(float) / region.colCount, 1, region.rowCount);
  std::vector<float> rows(rowsAtOnce * region.colCount);
  for (uint64_t done = 0; done < region.rowCount; done += rowsAtOnce) {
    const uint64_t now = std::min(rowsAtOnce, region.rowCount - done);
    CodedRegion piece = region;
    piece.firstRow += done;
    piece.rowCount = now;
    MOERT_RETURN_IF_ERROR(
        decodeRegion(store.stored(), weight, piece, std::span(rows).first(now * region.colCount)));
    for (uint64_t row = 0; row < now; ++row)
      for (uint64_t col = 0; col < region.colCount; ++col)
        out[col * region.rowCount + done + row] = rows[row * region.colCount + col];
  }
  return Status();
}

/// Elements of a vector, which may be stored as several rows.
Status WeightReader::decodeVector(const WeightSource &source, const StoredPart &part,
                                  std::span<float> out) const {
  const uint64_t cols = part.weight.coded->cols;
  const uint64_t first = part.matrix * part.inner + source.firstRow;
  const uint64_t last = first + (source.cols - uint64_t{1}) * source.rowStep;
  const uint64_t firstRow = first / cols, rows = last / cols - firstRow + 1;
  std::vector<float> whole(rows * cols);
  MOERT_RETURN_IF_ERROR(
      decodeRegion(store.stored(), *part.weight.coded, {0, firstRow, rows, 0, cols}, whole));
  for (uint64_t i = 0; i < source.cols; ++i)
    out[i] = whole[first - firstRow * cols + i * source.rowStep];
  return Status();
}

Status WeightReader::decodePart(const WeightSource &source, const StoredPart &part,
                                uint32_t firstRow, uint32_t rowCount, std::span<float> out) const {
  if (part.layout == StoredPart::Layout::kVector)
    return decodeVector(source, part, out);
  for (uint32_t done = 0; done < rowCount;) {
    const BlockRows rows = rowsInBlock(source, part, firstRow + done, rowCount - done);
    MOERT_RETURN_IF_ERROR(
        decodeBlock(source, part, rows,
                    out.subspan(uint64_t{done} * source.cols, uint64_t{rows.count} * source.cols)));
    done += rows.count;
  }
  return Status();
}

Status WeightReader::decodeBlock(const WeightSource &source, const StoredPart &part,
                                 const BlockRows &rows, std::span<float> out) const {
  const CodedWeight &weight = *part.weight.coded;
  const bool asColumns = (part.layout == StoredPart::Layout::kTransposed) != weight.isTransposed;
  const uint64_t inputs = source.cols;
  const uint64_t rowsAtOnce = source.rowStep == 1 ? rows.count : 1;
  for (uint64_t done = 0; done < rows.count; done += rowsAtOnce) {
    const uint64_t first = rows.firstStored + done * source.rowStep;
    const std::span<float> decoded = out.subspan(done * inputs, rowsAtOnce * inputs);
    MOERT_RETURN_IF_ERROR(
        asColumns
            ? decodeColumns(weight, {part.matrix, rows.firstInput, inputs, first, rowsAtOnce},
                            decoded)
            : decodeRegion(store.stored(), weight,
                           {part.matrix, first, rowsAtOnce, rows.firstInput, inputs}, decoded));
  }
  return Status();
}

Result<StoredType> WeightReader::storedType(const WeightSource &source) const {
  MOERT_ASSIGN_OR_RETURN(const StoredPart part, resolve(tensorsOf(source).front()));
  return part.type;
}

Status WeightReader::readStoredRows(const WeightSource &source, uint32_t firstRow,
                                    uint32_t rowCount, std::span<std::byte> out) const {
  MOERT_ASSIGN_OR_RETURN(const StoredPart part, resolve(source));
  if (!moert::rangeFits(firstRow, rowCount, source.rows) ||
      out.size() != storedBytes(part.type, uint64_t{rowCount} * source.cols))
    return invalidInput("rows ", firstRow, " + ", rowCount, " of ", quoted(source.tensor),
                        ": found room for ", out.size(), " bytes, expected rows within ",
                        source.rows, " and their exact size");
  if ((part.weight.coded && !part.isKept) || source.addsOne || source.integers)
    return invalidInput(store.stored().subject(part.weight.location), ": found ",
                        part.weight.coded ? "codes of a quantized weight" : "a weight to change",
                        ", expected stored rows");
  if (rowCount == 0)
    return Status();
  return readPart(source, part, firstRow, rowCount, out);
}

Status WeightReader::readRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                              std::span<float> out) const {
  if (source.shards > 1 && source.rows > 1) {
    for (uint32_t row = firstRow, at = 0, each = source.rows / source.shards; at < rowCount;) {
      const uint32_t count = std::min(rowCount - at, each - row % each);
      MOERT_RETURN_IF_ERROR(
          readRows(source.shard(row / each), row % each, count,
                   out.subspan(uint64_t{at} * source.cols, uint64_t{count} * source.cols)));
      row += count, at += count;
    }
    return Status();
  }
  if (source.shards > 1) {
    const size_t each = out.size() / source.shards;
    for (uint32_t i = 0; i < source.shards; ++i)
      MOERT_RETURN_IF_ERROR(
          readRows(source.shard(i), firstRow, rowCount, out.subspan(i * each, each)));
    return Status();
  }
  MOERT_ASSIGN_OR_RETURN(const StoredPart part, resolve(source));
  if (!moert::rangeFits(firstRow, rowCount, source.rows) ||
      out.size() != uint64_t{rowCount} * source.cols)
    return invalidInput("rows ", firstRow, " + ", rowCount, " of ", quoted(source.tensor),
                        ": found room for ", out.size(), " values, expected rows within ",
                        source.rows, " and their exact number");
  if (rowCount == 0)
    return Status();
  if (part.weight.coded) {
    MOERT_RETURN_IF_ERROR(decodePart(source, part, firstRow, rowCount, out));
  } else {
    MOERT_RETURN_IF_ERROR(readWidened(source, part, firstRow, rowCount, out));
  }
  if (source.addsOne)
    for (float &value : out)
      value += 1;
  return Status();
}

template <typename T>
Status WeightReader::readIntegers(const WeightSource &source, const StoredPart &part,
                                  uint32_t firstRow, uint32_t rowCount,
                                  std::span<float> out) const {
  constexpr T kMost = 1 << 24; // f32 holds all integers up to it.
  std::vector<T> stored(out.size());
  MOERT_RETURN_IF_ERROR(
      readPart(source, part, firstRow, rowCount, std::as_writable_bytes(std::span(stored))));
  for (size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] < 0 || stored[i] >= kMost)
      return invalidInput(store.stored().subject(part.weight.location), ": found ", stored[i],
                          ", expected integers from 0 to ", kMost - 1);
    out[i] = static_cast<float>(stored[i]);
  }
  return Status();
}

Status WeightReader::readWidened(const WeightSource &source, const StoredPart &part,
                                 uint32_t firstRow, uint32_t rowCount, std::span<float> out) const {
  if (source.integers)
    return part.type == StoredType::kI32
               ? readIntegers<int32_t>(source, part, firstRow, rowCount, out)
               : readIntegers<int64_t>(source, part, firstRow, rowCount, out);
  // The stored elements are read into the end of the output's memory: no extra buffer.
  const std::span<std::byte> bytes = std::as_writable_bytes(out);
  MOERT_RETURN_IF_ERROR(
      readPart(source, part, firstRow, rowCount, bytes.last(storedBytes(part.type, out.size()))));
  if (part.type == StoredType::kBf16)
    widenInPlace<bf16ToF32>(out);
  if (part.type == StoredType::kF16)
    widenInPlace<f16ToF32>(out);
  return Status();
}

} // namespace moec
