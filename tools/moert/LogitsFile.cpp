#include "tools/moert/LogitsFile.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/JsonWriter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace moert::cli {

static_assert(std::endian::native == std::endian::little, "rows are written in memory order");

LogitsShape logitsShapeOf(const Artifact &artifact, uint64_t tokens) {
  LogitsShape shape = {tokens, artifact.model.vocabularySize, artifact.moeLayers.size(), 0};
  for (const MoeLayer &layer : artifact.moeLayers)
    shape.topK = std::max<uint64_t>(shape.topK, layer.topK);
  return shape;
}

static uint64_t routeBytes(const LogitsShape &shape) {
  return shape.moeLayers * shape.tokens * shape.topK * 4;
}

static uint64_t logitsBytes(const LogitsShape &shape) {
  return shape.tokens * shape.vocabulary * 4;
}

uint64_t TensorEntry::bytes() const {
  uint64_t bytes = 4;
  for (const uint64_t size : shape)
    bytes *= size;
  return bytes;
}

std::string tensorsHeader(std::span<const TensorEntry> tensors) {
  std::string text;
  JsonWriter json(text);
  uint64_t end = 0;
  json.beginObject();
  for (const TensorEntry &tensor : tensors) {
    json.key(tensor.name).beginObject();
    json.key("dtype").string(tensor.type);
    json.key("shape").numbers(tensor.shape);
    json.key("data_offsets").numbers(std::array{end, end + tensor.bytes()});
    end += tensor.bytes();
    json.endObject();
  }
  json.endObject();
  text.resize(roundUp(text.size(), 8), ' ');

  std::string header;
  for (int shift = 0; shift < 64; shift += 8)
    header += static_cast<char>(text.size() >> shift & 0xFF);
  return header + text;
}

std::string logitsHeader(const LogitsShape &shape) {
  const std::vector<uint64_t> routes = {shape.moeLayers, shape.tokens, shape.topK};
  return tensorsHeader(
      std::array<TensorEntry, 3>{{{"logits", "F32", {shape.tokens, shape.vocabulary}},
                                  {"weights", "F32", routes},
                                  {"experts", "I32", routes}}});
}

uint64_t LogitsFile::memoryBytes(const LogitsShape &shape, uint32_t chunkTokens) {
  return shape.moeLayers * chunkTokens * shape.topK * (sizeof(int32_t) + sizeof(float));
}

Result<LogitsFile> LogitsFile::create(const std::string &path, const LogitsShape &shape,
                                      uint32_t chunkTokens) {
  std::string header = logitsHeader(shape);
  uint64_t bytes = header.size() + logitsBytes(shape) + 2 * routeBytes(shape);
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path, bytes));
  MOERT_RETURN_IF_ERROR(file.append(header));
  return LogitsFile(std::move(file), shape, chunkTokens, header.size());
}

LogitsFile::LogitsFile(OutputFile &&output, const LogitsShape &tensorShape, uint32_t tokens,
                       uint64_t headerSize)
    : file(std::move(output)), shape(tensorShape), logitsOffset(headerSize),
      weightsOffset(logitsOffset + logitsBytes(shape)),
      expertsOffset(weightsOffset + routeBytes(shape)), chunkRoom(tokens),
      chunkExperts(shape.moeLayers * tokens * shape.topK),
      chunkWeights(shape.moeLayers * tokens * shape.topK) {}

void LogitsFile::beginChunk(uint32_t firstPosition, uint32_t tokens) {
  assert(tokens <= chunkRoom);
  chunkBegin = firstPosition;
  chunkTokens = tokens;
  std::fill(chunkExperts.begin(), chunkExperts.end(), -1);
  std::fill(chunkWeights.begin(), chunkWeights.end(), 0.0f);
}

Status LogitsFile::onLogits(Session &, uint32_t position, std::span<const float> logits) {
  return file.writeAt(logitsOffset + position * shape.vocabulary * 4, std::as_bytes(logits));
}

void LogitsFile::onRoute(Session &, uint32_t moeLayer, uint32_t position,
                         std::span<const int32_t> experts, std::span<const float> weights) {
  uint64_t row = (uint64_t(moeLayer) * chunkRoom + (position - chunkBegin)) * shape.topK;
  std::copy(experts.begin(), experts.end(), chunkExperts.begin() + static_cast<ptrdiff_t>(row));
  std::copy(weights.begin(), weights.end(), chunkWeights.begin() + static_cast<ptrdiff_t>(row));
}

Status LogitsFile::endChunk() {
  for (uint64_t layer = 0; layer < shape.moeLayers; ++layer) {
    const uint64_t from = layer * chunkRoom * shape.topK;
    const uint64_t count = chunkTokens * shape.topK;
    const uint64_t to = (layer * shape.tokens + chunkBegin) * shape.topK * 4;
    MOERT_RETURN_IF_ERROR(file.writeAt(
        weightsOffset + to, std::as_bytes(std::span(chunkWeights).subspan(from, count))));
    MOERT_RETURN_IF_ERROR(file.writeAt(
        expertsOffset + to, std::as_bytes(std::span(chunkExperts).subspan(from, count))));
  }
  return {};
}

} // namespace moert::cli
