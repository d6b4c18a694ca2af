#include "compiler/import/Checkpoint.h"

#include "compiler/import/JsonScan.h"
#include "compiler/import/OptionalFile.h"
#include "compiler/import/TensorStore.h"
#include "compiler/import/codecs/KeptRows.h"
#include "compiler/import/tokenizer/RankedTokenizer.h"
#include "runtime/base/ArtifactPath.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/HalfFloat.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace moec {

using moert::bf16ToF32;
using moert::f16ToF32;
using moert::foreignFileText;
using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

static_assert(std::endian::native == std::endian::little, "weights are read without swapping");

namespace {

/// Buffer size for strided reads.
constexpr size_t kGatherBytes = 1 << 20;

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

struct Checkpoint::Impl {
  Status openFiles(const std::string &path);
  Status openGgufFile(const std::string &path);

  Result<StoredPart> resolve(const WeightSource &source) const;
  Status readPart(const WeightSource &source, const StoredPart &part, uint32_t firstRow,
                  uint32_t rowCount, std::span<std::byte> out) const;
  Status readBlock(const WeightSource &source, const StoredPart &part, const BlockRows &rows,
                   std::span<std::byte> out) const;
  Status readKeptBlock(const WeightSource &source, const StoredPart &part, const BlockRows &rows,
                       std::span<std::byte> out) const;
  Status readWidened(const WeightSource &source, const StoredPart &part, uint32_t firstRow,
                     uint32_t rowCount, std::span<float> out) const;
  template <typename T>
  Status readIntegers(const WeightSource &source, const StoredPart &part, uint32_t firstRow,
                      uint32_t rowCount, std::span<float> out) const;
  Status decodePart(const WeightSource &source, const StoredPart &part, uint32_t firstRow,
                    uint32_t rowCount, std::span<float> out) const;
  Status decodeVector(const WeightSource &source, const StoredPart &part,
                      std::span<float> out) const;
  Status decodeBlock(const WeightSource &source, const StoredPart &part, const BlockRows &rows,
                     std::span<float> out) const;
  Status decodeColumns(const CodedWeight &weight, const CodedRegion &region,
                       std::span<float> out) const;
  Status gather(const StoredPart &part, uint64_t firstElement, uint64_t stride, size_t count,
                std::byte *out, size_t outStride) const;

  std::string directory;
  std::optional<Config> config;
  std::optional<Config> generationConfig;
  std::optional<std::string> tokenizer;
  std::vector<std::string_view> otherTokenizers; // Filled if there is no tokenizer.json.
  std::unique_ptr<TensorStore> store;            // Never null once open.
  std::optional<MadeFiles> made;                 // For a GGUF file.
};

// The largest known tokenizer.json files have 35 MB.
static constexpr uint64_t kMaxTokenizerBytes = uint64_t(256) << 20;
static constexpr std::string_view kKimiFile = "/tiktoken.model", kTekkenFile = "/tekken.json";

/// The file with a tokenizer of ranks. A tiktoken.model is that of the class in
/// tokenizer_config.json, whose pattern is in its code; only Kimi's is known.
static Result<std::optional<std::string>> rankedTokenizerFile(const std::string &directory) {
  for (const std::string_view name : {kTekkenFile, kKimiFile}) {
    const std::string path = strCat(directory, name), about = directory + "/tokenizer_config.json";
    MOERT_ASSIGN_OR_RETURN(const bool isThere, hasReadableFile(path));
    MOERT_ASSIGN_OR_RETURN(const bool isDescribed, hasReadableFile(about));
    if (!isThere || (name == kKimiFile && !isDescribed))
      continue;
    if (name == kTekkenFile)
      return std::optional(path);
    MOERT_ASSIGN_OR_RETURN(const Config config, Config::read(about));
    MOERT_ASSIGN_OR_RETURN(const std::string kind, config.root().string("tokenizer_class", ""));
    if (kind == "TikTokenTokenizer")
      return std::optional(path);
  }
  return std::optional<std::string>();
}

static std::string firstBytesOf(const std::string &path) {
  std::string bytes(64, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

Status Checkpoint::Impl::openGgufFile(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(GgufCheckpoint file, openGguf(path));
  config = std::move(file.config);
  made = std::move(file.files);
  if (made->tokenizer)
    tokenizer = path;
  MOERT_ASSIGN_OR_RETURN(store, TensorStore::of(std::move(file.shards), std::move(file.codec)));
  return Status();
}

Status Checkpoint::Impl::openFiles(const std::string &path) {
  directory = path;
  if (beginsAsGguf(path))
    return openGgufFile(path);
  struct stat info;
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISREG(info.st_mode) && moert::beginsAsArtifact(path))
    return invalidInput(path,
                        ": found an artifact, which is compiled already, expected the folder "
                        "of a checkpoint; moert run ",
                        path, " executes it, moec replan ", path, " plans it for other memory");
  if (exists && S_ISREG(info.st_mode))
    if (const std::string found = foreignFileText(firstBytesOf(path)); !found.empty())
      return invalidInput(path, ": ", found);
  if (!exists || !S_ISDIR(info.st_mode))
    return invalidInput(path, ": found ", exists ? "a file" : "no such directory",
                        ", expected a GGUF file or a checkpoint directory with config.json and "
                        "model.safetensors",
                        exists ? "" : moert::hubHint(path));
  MOERT_RETURN_IF_ERROR(checkHasConfig(path));
  MOERT_ASSIGN_OR_RETURN(config, Config::read(path + "/config.json"));
  MOERT_ASSIGN_OR_RETURN(const bool hasGeneration,
                         hasReadableFile(path + "/generation_config.json"));
  if (hasGeneration) {
    MOERT_ASSIGN_OR_RETURN(generationConfig, Config::read(path + "/generation_config.json"));
  }
  MOERT_ASSIGN_OR_RETURN(const bool hasTokenizer, hasReadableFile(path + "/tokenizer.json"));
  if (hasTokenizer) {
    tokenizer = path + "/tokenizer.json";
  } else {
    MOERT_ASSIGN_OR_RETURN(tokenizer, rankedTokenizerFile(path));
    if (!tokenizer) {
      MOERT_ASSIGN_OR_RETURN(otherTokenizers, otherTokenizerFiles(path));
    }
  }
  MOERT_ASSIGN_OR_RETURN(store, TensorStore::open(path, config->root()));
  return Status();
}

/// Checks every field of the source against the stored shape, so that no read can leave the tensor,
/// even without checkTensors().
Result<StoredPart> Checkpoint::Impl::resolve(const WeightSource &source) const {
  MOERT_ASSIGN_OR_RETURN(WeightTensor weight, store->weight(source.tensor));
  const auto refuse = [&](std::string_view expected) {
    return invalidInput(store->stored().subject(weight.location), ": found ",
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
Status Checkpoint::Impl::gather(const StoredPart &part, uint64_t firstElement, uint64_t stride,
                                size_t count, std::byte *out, size_t outStride) const {
  const size_t size = storedBlock(part.type).bytes;
  const size_t perRead = static_cast<size_t>(std::max<uint64_t>(1, kGatherBytes / size / stride));
  std::vector<std::byte> buffer((std::min(perRead, count) - 1) * stride * size + size);
  for (size_t done = 0; done < count; done += perRead) {
    const size_t now = std::min(perRead, count - done);
    const std::span<std::byte> piece(buffer.data(), (now - 1) * stride * size + size);
    MOERT_RETURN_IF_ERROR(store->stored().read(
        part.weight.location, part.offset + (firstElement + done * stride) * size, piece));
    for (size_t i = 0; i < now; ++i)
      std::memcpy(out + (done + i) * outStride, piece.data() + i * stride * size, size);
  }
  return Status();
}

Status Checkpoint::Impl::readPart(const WeightSource &source, const StoredPart &part,
                                  uint32_t firstRow, uint32_t rowCount,
                                  std::span<std::byte> out) const {
  const size_t rowBytes = storedBytes(part.type, source.cols);
  for (uint32_t done = 0; done < rowCount;) {
    const BlockRows rows = rowsInBlock(source, part, firstRow + done, rowCount - done);
    MOERT_RETURN_IF_ERROR(
        readBlock(source, part, rows, out.subspan(done * rowBytes, rows.count * rowBytes)));
    done += rows.count;
  }
  return Status();
}

Status Checkpoint::Impl::readBlock(const WeightSource &source, const StoredPart &part,
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
    return store->stored().read(part.weight.location, part.offset + first * part.inner * size, out);
  for (uint64_t row = 0; row < rows.count; ++row) {
    const uint64_t stored = first + row * source.rowStep;
    MOERT_RETURN_IF_ERROR(store->stored().read(part.weight.location,
                                               part.offset + stored * part.inner * size,
                                               out.subspan(row * rowBytes, rowBytes)));
  }
  return Status();
}

Status Checkpoint::Impl::readKeptBlock(const WeightSource &source, const StoredPart &part,
                                       const BlockRows &rows, std::span<std::byte> out) const {
  const size_t rowBytes = storedBytes(part.type, source.cols);
  const uint64_t rowsAtOnce = source.rowStep == 1 ? rows.count : 1;
  for (uint64_t done = 0; done < rows.count; done += rowsAtOnce)
    MOERT_RETURN_IF_ERROR(readKept(store->stored(), *part.weight.coded,
                                   {part.matrix, rows.firstStored + done * source.rowStep,
                                    rowsAtOnce, rows.firstInput, source.cols},
                                   out.subspan(done * rowBytes, rowsAtOnce * rowBytes)));
  return Status();
}

/// Decodes columns of the coded matrix as rows of `out`. A few rows at a time, which bounds the
/// memory for the untransposed values.
Status Checkpoint::Impl::decodeColumns(const CodedWeight &weight, const CodedRegion &region,
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
        decodeRegion(store->stored(), weight, piece, std::span(rows).first(now * region.colCount)));
    for (uint64_t row = 0; row < now; ++row)
      for (uint64_t col = 0; col < region.colCount; ++col)
        out[col * region.rowCount + done + row] = rows[row * region.colCount + col];
  }
  return Status();
}

/// Elements of a vector, which may be stored as several rows.
Status Checkpoint::Impl::decodeVector(const WeightSource &source, const StoredPart &part,
                                      std::span<float> out) const {
  const uint64_t cols = part.weight.coded->cols;
  const uint64_t first = part.matrix * part.inner + source.firstRow;
  const uint64_t last = first + (source.cols - uint64_t{1}) * source.rowStep;
  const uint64_t firstRow = first / cols, rows = last / cols - firstRow + 1;
  std::vector<float> whole(rows * cols);
  MOERT_RETURN_IF_ERROR(
      decodeRegion(store->stored(), *part.weight.coded, {0, firstRow, rows, 0, cols}, whole));
  for (uint64_t i = 0; i < source.cols; ++i)
    out[i] = whole[first - firstRow * cols + i * source.rowStep];
  return Status();
}

Status Checkpoint::Impl::decodePart(const WeightSource &source, const StoredPart &part,
                                    uint32_t firstRow, uint32_t rowCount,
                                    std::span<float> out) const {
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

Status Checkpoint::Impl::decodeBlock(const WeightSource &source, const StoredPart &part,
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
            : decodeRegion(store->stored(), weight,
                           {part.matrix, first, rowsAtOnce, rows.firstInput, inputs}, decoded));
  }
  return Status();
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> content) : impl(std::move(content)) {}
Checkpoint::Checkpoint(Checkpoint &&) noexcept = default;
Checkpoint &Checkpoint::operator=(Checkpoint &&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Result<Checkpoint> Checkpoint::open(const std::string &directory) {
  auto impl = std::make_unique<Impl>();
  MOERT_RETURN_IF_ERROR(impl->openFiles(directory));
  return Checkpoint(std::move(impl));
}

const std::string &Checkpoint::directory() const {
  return impl->directory;
}

const MadeFiles *Checkpoint::madeFiles() const {
  return impl->made ? &*impl->made : nullptr;
}

ConfigObject Checkpoint::config() const {
  return impl->config->root();
}

std::optional<ConfigObject> Checkpoint::generationConfig() const {
  return impl->generationConfig ? std::optional(impl->generationConfig->root()) : std::nullopt;
}

const std::optional<std::string> &Checkpoint::tokenizerPath() const {
  return impl->tokenizer;
}

Result<std::string> Checkpoint::tokenizerText() const {
  if (impl->made)
    return *impl->made->tokenizer;
  const std::string &path = *impl->tokenizer;
  MOERT_ASSIGN_OR_RETURN(std::string text, readTextFile(path, kMaxTokenizerBytes));
  if (path.ends_with(kTekkenFile))
    return moert::makeTekkenTokenizer(text, path);
  if (!path.ends_with(kKimiFile))
    return text;
  MOERT_ASSIGN_OR_RETURN(
      const std::string config,
      readTextFile(impl->directory + "/tokenizer_config.json", kMaxTokenizerBytes));
  return moert::makeKimiTokenizer(text, config, path);
}

bool Checkpoint::has(std::string_view weight) const {
  return impl->store->has(weight);
}

std::vector<std::string_view> Checkpoint::weightNames() const {
  return impl->store->names();
}

Result<WeightTensor> Checkpoint::weight(std::string_view name) const {
  return impl->store->weight(name);
}

std::string Checkpoint::quantizationText() const {
  return impl->store->codec() ? impl->store->codec()->text() : "";
}

std::optional<TensorLocation> Checkpoint::find(std::string_view tensor) const {
  return impl->store->stored().find(tensor);
}

std::vector<std::string_view> Checkpoint::tensorNames() const {
  return impl->store->stored().shards().tensorNames();
}

std::string Checkpoint::absenceText(std::string_view tensor) const {
  return impl->store->stored().shards().absenceText(tensor);
}

std::vector<std::string> Checkpoint::warnings() const {
  std::vector<std::string> lines;
  if (std::string text = impl->store->stored().shards().disagreementText(); !text.empty())
    lines.push_back(std::move(text));
  if (!impl->otherTokenizers.empty() || (impl->made && !impl->tokenizer))
    lines.push_back(strCat("warning: ", impl->directory, ": ", tokenizerAdvice(),
                           ". The artifact will have no tokenizer, so that moert takes and prints ",
                           "token ids"));
  return lines;
}

std::string Checkpoint::tokenizerAdvice() const {
  if (impl->tokenizer)
    return "";
  if (impl->made)
    return impl->made->tokenizerAdvice;
  std::string names;
  bool hasVocabulary = false;
  for (const std::string_view name : impl->otherTokenizers) {
    names += strCat(names.empty() ? "" : ", ", name);
    hasVocabulary = hasVocabulary || !name.ends_with(".json") || name == "vocab.json";
  }
  if (!hasVocabulary)
    return strCat("found ", names, names.empty() ? "" : " and ",
                  "no tokenizer.json, which is the form that is read; if the model is ",
                  "published with one, download it too");
  return strCat("found ", names, " and no tokenizer.json, which is the form that is read; to ",
                "write it, run in Python with transformers, sentencepiece and tiktoken: ",
                "AutoTokenizer.from_pretrained(\"", impl->directory, "\").save_pretrained(\"",
                impl->directory, "\")");
}

const std::string &Checkpoint::shardPath(size_t shard) const {
  return impl->store->stored().shards()[shard].path();
}

std::vector<std::string> Checkpoint::shardPaths() const {
  const ShardSet &shards = impl->store->stored().shards();
  std::vector<std::string> paths;
  for (size_t shard = 0; shard < shards.size(); ++shard)
    paths.push_back(shards[shard].path());
  return paths;
}

Status Checkpoint::readBytes(const TensorLocation &location, uint64_t offset,
                             std::span<std::byte> out) const {
  return impl->store->stored().read(location, offset, out);
}

Result<StoredType> Checkpoint::storedType(const WeightSource &source) const {
  const std::vector<WeightSource> singles = tensorsOf(source);
  MOERT_ASSIGN_OR_RETURN(const StoredPart part, impl->resolve(singles.front()));
  return part.type;
}

Status Checkpoint::readStoredRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                                  std::span<std::byte> out) const {
  MOERT_ASSIGN_OR_RETURN(const StoredPart part, impl->resolve(source));
  if (!moert::rangeFits(firstRow, rowCount, source.rows) ||
      out.size() != storedBytes(part.type, uint64_t{rowCount} * source.cols))
    return invalidInput("rows ", firstRow, " + ", rowCount, " of ", quoted(source.tensor),
                        ": found room for ", out.size(), " bytes, expected rows within ",
                        source.rows, " and their exact size");
  if ((part.weight.coded && !part.isKept) || source.addsOne || source.integers)
    return invalidInput(impl->store->stored().subject(part.weight.location), ": found ",
                        part.weight.coded ? "codes of a quantized weight" : "a weight to change",
                        ", expected stored rows");
  if (rowCount == 0)
    return Status();
  return impl->readPart(source, part, firstRow, rowCount, out);
}

Status Checkpoint::readRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                            std::span<float> out) const {
  if (source.shards > 1) {
    for (uint32_t row = firstRow, at = 0, each = source.rows / source.shards; at < rowCount;) {
      const uint32_t count = std::min(rowCount - at, each - row % each);
      MOERT_RETURN_IF_ERROR(
          readRows(source.shard(row / each), row % each, count,
                   out.subspan(uint64_t{at} * source.cols, uint64_t{count} * source.cols)));
      row += count, at += count;
    }
    return Status();
  }
  if (const auto singles = tensorsOf(source); singles.size() > 1) {
    const size_t each = out.size() / singles.size();
    for (size_t i = 0; i < singles.size(); ++i)
      MOERT_RETURN_IF_ERROR(readRows(singles[i], firstRow, rowCount, out.subspan(i * each, each)));
    return Status();
  }
  MOERT_ASSIGN_OR_RETURN(const StoredPart part, impl->resolve(source));
  if (!moert::rangeFits(firstRow, rowCount, source.rows) ||
      out.size() != uint64_t{rowCount} * source.cols)
    return invalidInput("rows ", firstRow, " + ", rowCount, " of ", quoted(source.tensor),
                        ": found room for ", out.size(), " values, expected rows within ",
                        source.rows, " and their exact number");
  if (rowCount == 0)
    return Status();
  if (part.weight.coded) {
    MOERT_RETURN_IF_ERROR(impl->decodePart(source, part, firstRow, rowCount, out));
  } else {
    MOERT_RETURN_IF_ERROR(impl->readWidened(source, part, firstRow, rowCount, out));
  }
  if (source.addsOne)
    for (float &value : out)
      value += 1;
  return Status();
}

template <typename T>
Status Checkpoint::Impl::readIntegers(const WeightSource &source, const StoredPart &part,
                                      uint32_t firstRow, uint32_t rowCount,
                                      std::span<float> out) const {
  constexpr T kMost = 1 << 24; // f32 holds all integers up to it.
  std::vector<T> stored(out.size());
  MOERT_RETURN_IF_ERROR(
      readPart(source, part, firstRow, rowCount, std::as_writable_bytes(std::span(stored))));
  for (size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] < 0 || stored[i] >= kMost)
      return invalidInput(store->stored().subject(part.weight.location), ": found ", stored[i],
                          ", expected integers from 0 to ", kMost - 1);
    out[i] = static_cast<float>(stored[i]);
  }
  return Status();
}

Status Checkpoint::Impl::readWidened(const WeightSource &source, const StoredPart &part,
                                     uint32_t firstRow, uint32_t rowCount,
                                     std::span<float> out) const {
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
