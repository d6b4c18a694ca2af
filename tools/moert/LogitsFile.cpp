#include "tools/moert/LogitsFile.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/JsonWriter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

namespace moert::cli {

static_assert(std::endian::native == std::endian::little, "rows are written in memory order");

LogitsShape logitsShapeOf(const Artifact &artifact, uint64_t tokens, uint64_t encoderTokens) {
  LogitsShape shape = {tokens, artifact.model.vocabularySize, artifact.moeLayers.size(), 0};
  for (const MoeLayer &layer : artifact.moeLayers)
    shape.topK = std::max<uint64_t>(shape.topK, layer.topK);
  const Program *encoder = findProgram(artifact.programs, programs::kEncode);
  for (size_t i = 0; encoder && i < encoder->instructions.size(); ++i)
    shape.encoderLayers += std::holds_alternative<RouteInstruction>(encoder->instructions[i]);
  shape.moeLayers -= shape.encoderLayers;
  shape.encoderTokens = encoderTokens;
  return shape;
}

static uint64_t routeBytes(const LogitsShape &shape) {
  return shape.moeLayers * shape.tokens * shape.topK * 4;
}

static uint64_t encoderBytes(const LogitsShape &shape) {
  return shape.encoderLayers * shape.encoderTokens * shape.topK * 4;
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
  const std::vector<uint64_t> encoded = {shape.encoderLayers, shape.encoderTokens, shape.topK},
                              routes = {shape.moeLayers, shape.tokens, shape.topK};
  std::vector<TensorEntry> tensors = {{"encoder_weights", "F32", encoded},
                                      {"logits", "F32", {shape.tokens, shape.vocabulary}},
                                      {"weights", "F32", routes},
                                      {"encoder_experts", "I32", encoded},
                                      {"experts", "I32", routes}};
  if (shape.encoderTokens == 0)
    std::erase_if(tensors,
                  [](const TensorEntry &each) { return each.name.starts_with("encoder"); });
  return tensorsHeader(tensors);
}

uint64_t LogitsFile::memoryBytes(const LogitsShape &shape, uint32_t chunkTokens) {
  return (shape.moeLayers * chunkTokens + shape.encoderLayers * shape.encoderTokens) * shape.topK *
         (sizeof(int32_t) + sizeof(float));
}

Result<LogitsFile> LogitsFile::create(const std::string &path, const LogitsShape &shape,
                                      uint32_t chunkTokens) {
  std::string header = logitsHeader(shape);
  uint64_t bytes =
      header.size() + logitsBytes(shape) + 2 * (routeBytes(shape) + encoderBytes(shape));
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path, bytes));
  MOERT_RETURN_IF_ERROR(file.append(header));
  return LogitsFile(std::move(file), shape, chunkTokens, header.size());
}

LogitsFile::Choices LogitsFile::choicesOf(uint64_t layers, uint64_t tokens, uint32_t room) const {
  Choices made = {.layers = layers, .tokens = tokens, .count = room, .room = room};
  made.experts.resize(layers * room * shape.topK);
  made.weights.resize(made.experts.size());
  clear(made);
  return made;
}

void LogitsFile::clear(Choices &choices) {
  std::fill(choices.experts.begin(), choices.experts.end(), -1);
  std::fill(choices.weights.begin(), choices.weights.end(), 0.0f);
}

LogitsFile::LogitsFile(OutputFile &&output, const LogitsShape &tensorShape, uint32_t tokens,
                       uint64_t headerSize)
    : file(std::move(output)), shape(tensorShape),
      encoded(choicesOf(shape.encoderLayers, shape.encoderTokens,
                        static_cast<uint32_t>(shape.encoderTokens))),
      chunk(choicesOf(shape.moeLayers, shape.tokens, tokens)) {
  encoded.weightsOffset = headerSize;
  logitsOffset = encoded.weightsOffset + encoderBytes(shape);
  chunk.weightsOffset = logitsOffset + logitsBytes(shape);
  encoded.expertsOffset = chunk.weightsOffset + routeBytes(shape);
  chunk.expertsOffset = encoded.expertsOffset + encoderBytes(shape);
}

void LogitsFile::beginChunk(uint32_t firstPosition, uint32_t tokens) {
  assert(tokens <= chunk.room);
  chunk.begin = firstPosition;
  chunk.count = tokens;
  clear(chunk);
}

Status LogitsFile::onLogits(Session &, uint32_t position, std::span<const float> logits) {
  return file.writeAt(logitsOffset + position * shape.vocabulary * 4, std::as_bytes(logits));
}

void LogitsFile::onRoute(Session &, uint32_t moeLayer, uint32_t position,
                         std::span<const int32_t> experts, std::span<const float> weights) {
  const bool isEncoder = moeLayer < shape.encoderLayers;
  Choices &choices = isEncoder ? encoded : chunk;
  const uint64_t layer = isEncoder ? moeLayer : moeLayer - shape.encoderLayers;
  const uint64_t row = (layer * choices.room + (position - choices.begin)) * shape.topK;
  std::copy(experts.begin(), experts.end(), choices.experts.begin() + static_cast<ptrdiff_t>(row));
  std::copy(weights.begin(), weights.end(), choices.weights.begin() + static_cast<ptrdiff_t>(row));
}

Status LogitsFile::write(const Choices &choices) {
  for (uint64_t layer = 0; layer < choices.layers; ++layer) {
    const uint64_t from = layer * choices.room * shape.topK;
    const uint64_t count = choices.count * shape.topK;
    const uint64_t to = (layer * choices.tokens + choices.begin) * shape.topK * 4;
    MOERT_RETURN_IF_ERROR(
        file.writeAt(choices.weightsOffset + to,
                     std::as_bytes(std::span(choices.weights).subspan(from, count))));
    MOERT_RETURN_IF_ERROR(
        file.writeAt(choices.expertsOffset + to,
                     std::as_bytes(std::span(choices.experts).subspan(from, count))));
  }
  return {};
}

Status LogitsFile::endEncoder() {
  return write(encoded);
}

Status LogitsFile::endChunk() {
  return write(chunk);
}

} // namespace moert::cli
