#include "compiler/import/gguf/GgufHeader.h"

#include "compiler/import/JsonScan.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Utf8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;
using Json = nlohmann::json;

namespace {

/// Published headers have up to 30 MB, nearly all of it the vocabulary.
constexpr uint64_t kMaxHeaderBytes = 256 << 20;
/// The largest vocabulary has 262,144 tokens and twice as many merges.
constexpr uint64_t kMaxElements = 1 << 22;
constexpr uint64_t kMaxNameBytes = 1 << 16;
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr uint32_t kMaxDimensions = 4;
/// The fewest bytes of a key and of a tensor in the header.
constexpr uint64_t kKeyBytes = 8 + 4 + 1, kTensorBytes = 8 + 4 + 8 + 4 + 8;

/// Types of values by number.
enum ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64,
};
constexpr std::array<uint8_t, 13> kValueBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

struct TypeNumber {
  uint32_t number;
  TensorType type;
};

constexpr std::array kTypeNumbers = {
    TypeNumber{0, TensorType::kF32},     TypeNumber{1, TensorType::kF16},
    TypeNumber{2, TensorType::kQ4x0},    TypeNumber{3, TensorType::kQ4x1},
    TypeNumber{6, TensorType::kQ5x0},    TypeNumber{7, TensorType::kQ5x1},
    TypeNumber{8, TensorType::kQ8x0},    TypeNumber{10, TensorType::kQ2K},
    TypeNumber{11, TensorType::kQ3K},    TypeNumber{12, TensorType::kQ4K},
    TypeNumber{13, TensorType::kQ5K},    TypeNumber{14, TensorType::kQ6K},
    TypeNumber{16, TensorType::kIq2Xxs}, TypeNumber{17, TensorType::kIq2Xs},
    TypeNumber{18, TensorType::kIq3Xxs}, TypeNumber{19, TensorType::kIq1S},
    TypeNumber{20, TensorType::kIq4Nl},  TypeNumber{21, TensorType::kIq3S},
    TypeNumber{22, TensorType::kIq2S},   TypeNumber{23, TensorType::kIq4Xs},
    TypeNumber{24, TensorType::kI8},     TypeNumber{25, TensorType::kI16},
    TypeNumber{26, TensorType::kI32},    TypeNumber{27, TensorType::kI64},
    TypeNumber{28, TensorType::kF64},    TypeNumber{29, TensorType::kIq1M},
    TypeNumber{30, TensorType::kBf16},   TypeNumber{34, TensorType::kTq1x0},
    TypeNumber{35, TensorType::kTq2x0},  TypeNumber{39, TensorType::kMxfp4},
    TypeNumber{40, TensorType::kNvfp4},  TypeNumber{41, TensorType::kQ1x0},
    TypeNumber{42, TensorType::kQ2x0},
};

/// A number that JSON writes as the fewest digits with this float.
double shortest(float value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.begin(), text.end(), value);
  double result = value;
  std::from_chars(text.begin(), end.ptr, result);
  return result;
}

/// Reads the header from its beginning to its end, through a buffer.
class HeaderReader {
public:
  HeaderReader(const ReadBytes &source, uint64_t fileBytes)
      : read(source), fileSize(fileBytes), end(std::min(fileBytes, kMaxHeaderBytes)) {}

  Status parse(GgufHeader &header) {
    MOERT_RETURN_IF_ERROR(readCounts());
    for (uint64_t i = 0; i < keys; ++i)
      MOERT_RETURN_IF_ERROR(readKey(header.keys));
    MOERT_ASSIGN_OR_RETURN(const uint64_t alignment, readAlignment(header.keys));
    for (uint64_t i = 0; i < tensors; ++i)
      MOERT_RETURN_IF_ERROR(readTensor(alignment, header.shard.tensors));
    // The header ends below kMaxHeaderBytes, so that nothing overflows. Without tensors there need
    // be no padding.
    header.shard.dataOffset = std::min(moert::roundUp(position, alignment), fileSize);
    return checkTensors(header.shard);
  }

private:
  /// The header's bytes that are left.
  uint64_t left() const { return end - position; }

  Status bytes(std::span<std::byte> out) {
    if (out.size() > left())
      return invalidInput("found the end of the ", end == fileSize ? "file" : "largest header",
                          " at byte ", end, ", expected ", out.size(), " more bytes");
    while (!out.empty()) {
      if (position < bufferBegin || position - bufferBegin >= buffer.size()) {
        buffer.resize(std::min<uint64_t>(left(), 1 << 16));
        MOERT_RETURN_IF_ERROR(read(position, buffer));
        bufferBegin = position;
      }
      const std::span<std::byte> ready = std::span(buffer).subspan(position - bufferBegin);
      const size_t count = std::min(ready.size(), out.size());
      std::memcpy(out.data(), ready.data(), count);
      out = out.subspan(count);
      position += count;
    }
    return Status();
  }

  template <typename Number> Result<Number> number() {
    Number value = 0;
    MOERT_RETURN_IF_ERROR(bytes(std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }

  Result<std::string> text(uint64_t most) {
    MOERT_ASSIGN_OR_RETURN(const auto length, number<uint64_t>());
    if (length > std::min(most, left()))
      return invalidInput("found a text of ", length, " bytes, expected at most ",
                          std::min(most, left()));
    std::string result(length, '\0');
    MOERT_RETURN_IF_ERROR(bytes(std::as_writable_bytes(std::span(result))));
    if (!moert::isValidUtf8(result))
      return invalidInput("found the text ", quoted(result), ", expected UTF-8");
    return result;
  }

  Status readCounts() {
    std::array<char, 4> magic = {};
    MOERT_RETURN_IF_ERROR(bytes(std::as_writable_bytes(std::span(magic))));
    if (std::string_view(magic.data(), magic.size()) != "GGUF")
      return invalidInput("found the first bytes ",
                          quoted(std::string_view(magic.data(), magic.size())),
                          ", expected \"GGUF\"");
    MOERT_ASSIGN_OR_RETURN(const auto version, number<uint32_t>());
    if (version == 3u << 24 || version == 2u << 24)
      return invalidInput("found a big-endian file, expected a little-endian one");
    if (version != 2 && version != 3)
      return invalidInput("found version ", version, " of GGUF, expected 2 or 3");
    MOERT_ASSIGN_OR_RETURN(tensors, number<uint64_t>());
    MOERT_ASSIGN_OR_RETURN(keys, number<uint64_t>());
    if (keys > left() / kKeyBytes || tensors > left() / kTensorBytes)
      return invalidInput("found ", tensors, " tensors and ", keys,
                          " keys, expected no more than fit ", left(), " bytes");
    return Status();
  }

  Status readKey(Json &object) {
    MOERT_ASSIGN_OR_RETURN(const std::string name, text(kMaxNameBytes));
    MOERT_ASSIGN_OR_RETURN(const auto type, number<uint32_t>());
    Result<Json> value = type == kArray ? readArray() : readValue(type);
    if (!value.isOk())
      return value.status().withContext(strCat("key ", quoted(name)));
    if (!object.emplace(name, std::move(*value)).second)
      return invalidInput("found key ", quoted(name), " twice, expected it once");
    return Status();
  }

  Result<Json> readArray() {
    MOERT_ASSIGN_OR_RETURN(const auto type, number<uint32_t>());
    if (type >= kValueBytes.size() || type == kArray)
      return invalidInput("found an array of type ", type, ", expected numbers or texts");
    MOERT_ASSIGN_OR_RETURN(const auto count, number<uint64_t>());
    if (count > std::min(kMaxElements, left() / kValueBytes[type]))
      return invalidInput("found an array of ", count, " elements, expected at most ",
                          std::min(kMaxElements, left() / kValueBytes[type]));
    Json array = Json::array();
    array.get_ref<Json::array_t &>().reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      MOERT_ASSIGN_OR_RETURN(Json value, readValue(type));
      array.push_back(std::move(value));
    }
    return array;
  }

  template <typename Number> Result<Json> readNumber() {
    MOERT_ASSIGN_OR_RETURN(const auto value, number<Number>());
    return Json(value);
  }

  Result<Json> readValue(uint32_t type) {
    switch (type) {
    case kU8:
      return readNumber<uint8_t>();
    case kI8:
      return readNumber<int8_t>();
    case kU16:
      return readNumber<uint16_t>();
    case kI16:
      return readNumber<int16_t>();
    case kU32:
      return readNumber<uint32_t>();
    case kI32:
      return readNumber<int32_t>();
    case kU64:
      return readNumber<uint64_t>();
    case kI64:
      return readNumber<int64_t>();
    case kF64:
      return readNumber<double>();
    case kF32: {
      MOERT_ASSIGN_OR_RETURN(const auto value, number<float>());
      return Json(std::isfinite(value) ? shortest(value) : double{value});
    }
    case kBool: {
      MOERT_ASSIGN_OR_RETURN(const auto value, number<uint8_t>());
      if (value > 1)
        return invalidInput("found the flag ", uint32_t{value}, ", expected 0 or 1");
      return Json(value == 1);
    }
    case kText: {
      MOERT_ASSIGN_OR_RETURN(std::string value, text(kMaxHeaderBytes));
      return Json(std::move(value));
    }
    default:
      return invalidInput("found a value of type ", type, ", expected a type from 0 to ",
                          kValueBytes.size() - 1);
    }
  }

  static Result<uint64_t> readAlignment(const Json &keys) {
    const auto found = keys.find("general.alignment");
    if (found == keys.end())
      return uint64_t{32};
    const bool isNumber = found->is_number_unsigned();
    const uint64_t alignment = isNumber ? found->get<uint64_t>() : 0;
    if (!std::has_single_bit(alignment) || alignment > kMaxAlignment)
      return invalidInput("key \"general.alignment\": found ", found->dump(),
                          ", expected a power of two up to ", kMaxAlignment);
    return alignment;
  }

  Status readTensor(uint64_t alignment, std::vector<StoredTensor> &list) {
    StoredTensor tensor;
    MOERT_ASSIGN_OR_RETURN(tensor.name, text(kMaxNameBytes));
    Status status = readLayout(alignment, tensor);
    if (!status.isOk())
      return std::move(status).withContext(strCat("tensor ", quoted(tensor.name)));
    list.push_back(std::move(tensor));
    return Status();
  }

  Status readLayout(uint64_t alignment, StoredTensor &tensor) {
    MOERT_ASSIGN_OR_RETURN(const auto dimensions, number<uint32_t>());
    if (dimensions == 0 || dimensions > kMaxDimensions)
      return invalidInput("found ", dimensions, " dimensions, expected 1 to ", kMaxDimensions);
    for (uint32_t i = 0; i < dimensions; ++i) {
      MOERT_ASSIGN_OR_RETURN(const auto size, number<uint64_t>());
      tensor.shape.insert(tensor.shape.begin(), size);
    }
    MOERT_ASSIGN_OR_RETURN(const auto type, number<uint32_t>());
    const auto *known = std::find_if(kTypeNumbers.begin(), kTypeNumbers.end(),
                                     [&](const TypeNumber &each) { return each.number == type; });
    if (known == kTypeNumbers.end())
      return invalidInput("found type ", type, ", expected one of ggml's types for files");
    tensor.type = known->type;
    MOERT_ASSIGN_OR_RETURN(const uint64_t size, bytesOf(tensor));
    MOERT_ASSIGN_OR_RETURN(tensor.begin, number<uint64_t>());
    if (tensor.begin != nextOffset)
      return invalidInput("found offset ", tensor.begin, ", expected ", nextOffset,
                          ", the end of the tensor before it, rounded up to ", alignment);
    const std::optional<uint64_t> last = moert::checkedAdd(tensor.begin, size);
    const std::optional<uint64_t> next =
        last ? moert::checkedRoundUp(*last, alignment) : std::nullopt;
    if (!next)
      return invalidInput("found ", size, " bytes at offset ", tensor.begin,
                          ", expected an end that does not overflow");
    tensor.end = *last;
    nextOffset = *next;
    return Status();
  }

  static Result<uint64_t> bytesOf(const StoredTensor &tensor) {
    const TensorBlock block = tensorBlock(tensor.type);
    if (tensor.shape.back() % block.elements != 0)
      return invalidInput("found rows of ", tensor.shape.back(), " elements, expected a multiple ",
                          "of ", block.elements, " for ", tensorTypeName(tensor.type));
    std::optional<uint64_t> count = block.bits / 8;
    for (const uint64_t size : tensor.shape)
      count = count ? moert::checkedMultiply(*count, size) : count;
    if (!count || *count == 0)
      return invalidInput("found shape ", shapeText(tensor.shape),
                          ", expected one with elements, whose size does not overflow");
    return *count / block.elements;
  }

  Status checkTensors(ShardHeader &shard) const {
    for (const StoredTensor &tensor : shard.tensors)
      if (tensor.end > fileSize - shard.dataOffset)
        return invalidInput("tensor ", quoted(tensor.name), ": found data up to byte ", tensor.end,
                            " of the data, expected at most ", fileSize - shard.dataOffset,
                            ", the end of the file; is the download ", "complete?");
    std::sort(shard.tensors.begin(), shard.tensors.end(),
              [](const StoredTensor &a, const StoredTensor &b) { return a.name < b.name; });
    const auto twin = std::adjacent_find(
        shard.tensors.begin(), shard.tensors.end(),
        [](const StoredTensor &a, const StoredTensor &b) { return a.name == b.name; });
    if (twin != shard.tensors.end())
      return invalidInput("found tensor ", quoted(twin->name), " twice, expected unique names");
    return Status();
  }

  const ReadBytes &read;
  uint64_t fileSize, end; // End: of the largest header.
  uint64_t position = 0;
  uint64_t tensors = 0, keys = 0;
  uint64_t nextOffset = 0; // At which the next tensor's data begin.
  std::vector<std::byte> buffer;
  uint64_t bufferBegin = 0;
};

} // namespace

Result<GgufHeader> parseGgufHeader(const std::string &fileName, const ReadBytes &read,
                                   uint64_t fileSize) {
  GgufHeader header;
  MOERT_RETURN_IF_ERROR(HeaderReader(read, fileSize).parse(header).withContext(fileName));
  return header;
}

} // namespace moec
