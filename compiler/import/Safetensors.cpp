#include "compiler/import/Safetensors.h"

#include "compiler/import/JsonScan.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <new>
#include <optional>
#include <tuple>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

/// The type with this name in a header; nullopt for a name that the format does not have.
std::optional<TensorType> typeNamed(std::string_view name) {
  for (auto i = 0; i <= static_cast<int>(TensorType::kU64); ++i)
    if (const auto type = static_cast<TensorType>(i); tensorTypeName(type) == name)
      return type;
  return std::nullopt;
}

/// Builds tensors from the events of a header. The state is the place of the next event in the
/// header. Values of unknown keys in a tensor's entry are skipped, as in the reference reader.
class HeaderHandler final : public JsonEventHandler {
public:
  explicit HeaderHandler(std::vector<StoredTensor> &output) : tensors(output) {}

  Status handle(const JsonEvent &event) override {
    switch (state) {
    case State::kStart:
      return expectObject(event, "the header", State::kTop);
    case State::kTop:
      return handleTop(event);
    case State::kMetadataValue:
      if (event.kind == JsonEventKind::kNull) {
        state = State::kTop;
        return Status();
      }
      return expectObject(event, "__metadata__", State::kMetadata);
    case State::kMetadata:
      return handleMetadata(event);
    case State::kTensorValue:
      return expectObject(event, subject(), State::kTensor);
    case State::kTensor:
      return handleTensorKey(event);
    case State::kDtype:
      return handleDtype(event);
    case State::kShape:
    case State::kOffsets:
      return handleNumbers(event);
    case State::kSkip:
      handleSkipped(event);
      return Status();
    }
    return Status();
  }

private:
  enum class State {
    kStart,
    kTop,
    kMetadataValue,
    kMetadata,
    kTensorValue,
    kTensor,
    kDtype,
    kShape,
    kOffsets,
    kSkip
  };

  std::string subject() const { return strCat("tensor ", quoted(tensors.back().name)); }

  Status expectObject(const JsonEvent &event, std::string_view what, State next) {
    if (event.kind != JsonEventKind::kStartObject)
      return invalidInput(what, ": found ", describeEvent(event), ", expected an object");
    state = next;
    return Status();
  }

  Status handleTop(const JsonEvent &event) {
    if (event.kind == JsonEventKind::kEndObject)
      return Status(); // The header's end; the scanner rejects anything after it.
    if (*event.text == "__metadata__") {
      if (seenMetadata)
        return invalidInput("found __metadata__ twice, expected it once");
      seenMetadata = true;
      state = State::kMetadataValue;
      return Status();
    }
    tensors.emplace_back();
    tensors.back().name = std::move(*event.text);
    seenDtype = seenShape = seenOffsets = false;
    state = State::kTensorValue;
    return Status();
  }

  Status handleMetadata(const JsonEvent &event) {
    if (event.kind == JsonEventKind::kEndObject)
      state = State::kTop;
    else if (event.kind != JsonEventKind::kKey && event.kind != JsonEventKind::kString)
      return invalidInput("__metadata__: found ", describeEvent(event), ", expected a string");
    return Status();
  }

  Status handleTensorKey(const JsonEvent &event) {
    if (event.kind == JsonEventKind::kEndObject) {
      const char *missing = !seenDtype     ? "dtype"
                            : !seenShape   ? "shape"
                            : !seenOffsets ? "data_offsets"
                                           : nullptr;
      if (missing)
        return invalidInput(subject(), ": found no ", missing,
                            ", expected dtype, shape and data_offsets");
      state = State::kTop;
      return Status();
    }
    const std::string &key = *event.text;
    if (key == "dtype")
      return enterField(seenDtype, "dtype", State::kDtype);
    if (key == "shape")
      return enterField(seenShape, "shape", State::kShape);
    if (key == "data_offsets")
      return enterField(seenOffsets, "data_offsets", State::kOffsets);
    state = State::kSkip;
    return Status();
  }

  Status enterField(bool &seen, std::string_view field, State next) {
    if (seen)
      return invalidInput(subject(), ": found ", field, " twice, expected it once");
    seen = true;
    numbers = 0;
    inArray = false;
    state = next;
    return Status();
  }

  Status handleDtype(const JsonEvent &event) {
    if (event.kind != JsonEventKind::kString)
      return invalidInput(subject(), ": dtype: found ", describeEvent(event),
                          ", expected a string");
    const std::optional<TensorType> type = typeNamed(*event.text);
    if (!type)
      return invalidInput(subject(), ": found dtype ", quoted(*event.text),
                          ", expected a type of the safetensors format such as BF16");
    tensors.back().type = *type;
    state = State::kTensor;
    return Status();
  }

  /// Handles shape and data_offsets: arrays of unsigned integers.
  Status handleNumbers(const JsonEvent &event) {
    const bool isShape = state == State::kShape;
    const std::string_view field = isShape ? "shape" : "data_offsets";
    if (!inArray && event.kind == JsonEventKind::kStartArray) {
      inArray = true;
      return Status();
    }
    if (inArray && event.kind == JsonEventKind::kEndArray) {
      if (!isShape && numbers != 2)
        return invalidInput(subject(), ": data_offsets: found ", numbers, " numbers, expected 2");
      state = State::kTensor;
      return Status();
    }
    if (!inArray || event.kind != JsonEventKind::kUnsigned)
      return invalidInput(subject(), ": ", field, ": found ", describeEvent(event),
                          ", expected an array of integers that are not negative");
    return isShape ? addDimension(event.number) : addOffset(event.number);
  }

  Status addDimension(uint64_t size) {
    if (++numbers > kSafetensorsMaxRank)
      return invalidInput(subject(), ": shape: found more than ", kSafetensorsMaxRank,
                          " dimensions, expected at most that");
    tensors.back().shape.push_back(size);
    return Status();
  }

  Status addOffset(uint64_t offset) {
    if (++numbers > 2)
      return invalidInput(subject(), ": data_offsets: found more than 2 numbers, expected 2");
    (numbers == 1 ? tensors.back().begin : tensors.back().end) = offset;
    return Status();
  }

  void handleSkipped(const JsonEvent &event) {
    if (event.kind == JsonEventKind::kStartObject || event.kind == JsonEventKind::kStartArray)
      ++skipDepth;
    else if (event.kind == JsonEventKind::kEndObject || event.kind == JsonEventKind::kEndArray)
      --skipDepth;
    if (skipDepth == 0)
      state = State::kTensor;
  }

  std::vector<StoredTensor> &tensors;
  State state = State::kStart;
  bool seenMetadata = false;
  bool seenDtype = false, seenShape = false, seenOffsets = false; // Fields seen of the last tensor.
  bool inArray = false;
  size_t numbers = 0; // Count in the current array.
  size_t skipDepth = 0;
};

Status checkUniqueNames(const std::vector<StoredTensor> &sortedByName) {
  const auto twin = std::adjacent_find(
      sortedByName.begin(), sortedByName.end(),
      [](const StoredTensor &a, const StoredTensor &b) { return a.name == b.name; });
  if (twin != sortedByName.end())
    return invalidInput("found tensor ", quoted(twin->name), " twice, expected unique names");
  return Status();
}

/// The size that type and shape require, in bytes.
Result<uint64_t> tensorBytes(const StoredTensor &tensor) {
  std::optional<uint64_t> bits = 1;
  for (const uint64_t size : tensor.shape)
    bits = bits ? moert::checkedMultiply(*bits, size) : bits;
  bits = bits ? moert::checkedMultiply(*bits, tensorBlock(tensor.type).bits) : bits;
  if (!bits)
    return invalidInput("tensor ", quoted(tensor.name), ": found shape ", shapeText(tensor.shape),
                        ", expected one whose size does not overflow");
  if (*bits % 8 != 0)
    return invalidInput("tensor ", quoted(tensor.name), ": found ", *bits, " bits of ",
                        tensorTypeName(tensor.type), ", expected whole bytes");
  return *bits / 8;
}

/// Checks that the offsets tile the data section without gap or overlap, and that each tensor's
/// size matches its shape. Returns the end of the last one.
Result<uint64_t> checkLayout(const std::vector<StoredTensor> &tensors) {
  std::vector<const StoredTensor *> byOffset;
  byOffset.reserve(tensors.size());
  for (const StoredTensor &tensor : tensors)
    byOffset.push_back(&tensor);
  std::sort(byOffset.begin(), byOffset.end(), [](const StoredTensor *a, const StoredTensor *b) {
    return std::tie(a->begin, a->end, a->name) < std::tie(b->begin, b->end, b->name);
  });
  uint64_t position = 0;
  for (const StoredTensor *tensor : byOffset) {
    if (tensor->begin != position || tensor->end < tensor->begin)
      return invalidInput("tensor ", quoted(tensor->name), ": found data_offsets [", tensor->begin,
                          ", ", tensor->end, "], expected them to begin at ", position,
                          ", the end of the previous tensor, and not to end before that");
    position = tensor->end;
    MOERT_ASSIGN_OR_RETURN(const uint64_t bytes, tensorBytes(*tensor));
    if (tensor->end - tensor->begin != bytes)
      return invalidInput("tensor ", quoted(tensor->name), ": found ", tensor->end - tensor->begin,
                          " bytes in data_offsets, expected ", bytes, " for ",
                          tensorTypeName(tensor->type), " ", shapeText(tensor->shape));
  }
  return position;
}

Status checkHeader(ShardHeader &header, uint64_t headerBytes, uint64_t fileSize) {
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const StoredTensor &a, const StoredTensor &b) { return a.name < b.name; });
  MOERT_RETURN_IF_ERROR(checkUniqueNames(header.tensors));
  MOERT_ASSIGN_OR_RETURN(const uint64_t dataBytes, checkLayout(header.tensors));
  header.dataOffset = 8 + headerBytes;
  if (dataBytes != fileSize - header.dataOffset)
    return invalidInput("found ", fileSize - header.dataOffset, " bytes of data, expected ",
                        dataBytes, " from the header");
  return Status();
}

} // namespace

Result<uint64_t> safetensorsHeaderLength(std::string_view fileName, std::string_view firstBytes,
                                         uint64_t fileSize) {
  if (fileSize < 8 || firstBytes.size() < 8)
    return invalidInput(fileName, ": found ", fileSize,
                        " bytes, expected at least the 8 of a safetensors header length");
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i)
    length |= uint64_t{static_cast<unsigned char>(firstBytes[i])} << (8 * i);
  if (length > kSafetensorsMaxHeaderBytes)
    return invalidInput(fileName, ": found a header length of ", length,
                        " bytes, expected at most ", kSafetensorsMaxHeaderBytes,
                        "; is it a safetensors file?");
  if (!moert::rangeFits(8, length, fileSize))
    return invalidInput(fileName, ": found a header length of ", length, " bytes in a file of ",
                        fileSize, ", expected the header to fit");
  return length;
}

Result<ShardHeader> parseSafetensorsHeader(std::string_view fileName, std::string_view text,
                                           uint64_t fileSize) {
  if (text.size() > kSafetensorsMaxHeaderBytes || !moert::rangeFits(8, text.size(), fileSize))
    return invalidInput(fileName, ": found a header of ", text.size(), " bytes in a file of ",
                        fileSize, ", expected the header to fit");
  try {
    ShardHeader header;
    HeaderHandler handler(header.tensors);
    MOERT_RETURN_IF_ERROR(scanJson(fileName, text, handler));
    MOERT_RETURN_IF_ERROR(checkHeader(header, text.size(), fileSize).withContext(fileName));
    return header;
  } catch (const std::bad_alloc &) {
    return moert::failed(fileName, ": out of memory while reading a header of ", text.size(),
                         " bytes");
  }
}

} // namespace moec
