#include "tests/unit/profile/TinyProfile.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/RandomStream.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <unistd.h>

using namespace moec;

CalibrationInfo tinyProfileInfo() {
  CalibrationInfo info;
  info.checkpointHash = {0x1234, 0x5678};
  info.seed = 7;
  info.windowTokens = 4;
  info.hiddenSize = 24;
  info.vocabularySize = 50;
  info.texts = {{"a.txt", 1, 100, 2}, {"b.txt", 2, 60, 1}};
  info.tokens = {1, 2, 3, 4, 5, 6, 7, 8, 49, 0, 11, 12};
  for (uint32_t i = 0; i < 4; ++i)
    info.moeLayers.push_back({i + 1, 6, 2, {}, {}});
  info.moeLayers.push_back({7, 3, 1, {}, {}});
  info.residentInputs = {{0, 24, {"layer0.query", "layer0.key"}},
                         {1, 24, {"layer1.query"}},
                         {1, 40, {"layer1.output"}},
                         {kAfterLayers, 24, {"head"}}};
  return info;
}

Moments tinyMoments(const CalibrationInfo &info, size_t input) {
  moert::RandomStream random(200 + input);
  Moments moments;
  moments.cols = info.residentInputs[input].cols;
  moments.weight = double(info.tokens.size());
  std::vector<double> &block = moments.blocks.emplace_back(size_t(moments.cols) * moments.cols);
  for (size_t row = 0; row < moments.cols; ++row)
    for (size_t col = 0; col <= row; ++col)
      block[row * moments.cols + col] =
          row == col ? 2.0 : double(static_cast<float>(random.nextUnit() - 0.5));
  return moments;
}

std::vector<float> tinyRows(const CalibrationInfo &info, size_t moeLayer) {
  moert::RandomStream random(moeLayer);
  std::vector<float> rows(info.tokens.size() * info.hiddenSize);
  for (size_t i = 0; i < rows.size(); ++i) {
    size_t token = i / info.hiddenSize;
    float scale = token == 0 ? 0.0f : token == 1 ? 1e30f : token == 2 ? 1e-30f : 2.0f;
    rows[i] = (static_cast<float>(random.nextUnit()) - 0.5f) * scale;
  }
  return rows;
}

static ExpertCandidates randomCandidates(moert::RandomStream &random, size_t tokens,
                                         const CalibrationInfo::MoeLayer &layer) {
  ExpertCandidates candidates;
  candidates.perToken = candidatesOf(layer.experts, layer.topK);
  std::vector<uint16_t> order(layer.experts);
  std::iota(order.begin(), order.end(), uint16_t(0));
  for (size_t token = 0; token < tokens; ++token) {
    for (uint32_t i = layer.experts; i > 1; --i)
      std::swap(order[i - 1], order[random.nextBelow(i)]);
    float probability = 0.5f;
    for (uint32_t i = 0; i < candidates.perToken; ++i, probability *= 0.5f) {
      candidates.experts.push_back(order[i]);
      candidates.probabilities.push_back(probability);
    }
  }
  return candidates;
}

LayerTrace tinyTrace(const CalibrationInfo &info, size_t moeLayer) {
  moert::RandomStream random(100 + moeLayer);
  const CalibrationInfo::MoeLayer &layer = info.moeLayers[moeLayer];
  const size_t tokens = info.tokens.size();
  LayerTrace trace;
  trace.topK = layer.topK;
  trace.candidates = randomCandidates(random, tokens, layer);
  for (size_t token = 0; token < tokens; ++token) {
    trace.inputNorms.push_back(static_cast<float>(random.nextUnit()));
    for (uint32_t rank = 0; rank < layer.topK; ++rank) {
      size_t from = token * trace.candidates.perToken + rank;
      trace.experts.push_back(trace.candidates.experts[from]);
      trace.weights.push_back(trace.candidates.probabilities[from]);
    }
  }
  for (size_t depth = 1; depth <= kPredictionDepths && moeLayer + depth < info.moeLayers.size();
       ++depth)
    trace.predictions.push_back(randomCandidates(random, tokens, info.moeLayers[moeLayer + depth]));
  return trace;
}

std::vector<std::byte> bytesOfFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> result(bytes.size());
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

moert::Status writeTinyInputs(const CalibrationInfo &info, uint64_t layer, ProfileWriter &writer) {
  while (writer.finishedInputs() < info.residentInputs.size() &&
         info.residentInputs[writer.finishedInputs()].layer < layer)
    MOERT_RETURN_IF_ERROR(writer.appendMoments(tinyMoments(info, writer.finishedInputs())));
  return {};
}

std::vector<std::byte> tinyProfile() {
  const std::string path = "tiny-profile-" + std::to_string(::getpid());
  CalibrationInfo info = tinyProfileInfo();
  auto writer = ProfileWriter::create(path, info);
  if (!writer.isOk())
    throw writer.status().message();
  for (size_t layer = 0; layer < info.moeLayers.size(); ++layer) {
    auto written = writeTinyInputs(info, info.moeLayers[layer].layer, *writer);
    if (written.isOk())
      written = writer->appendRows(tinyRows(info, layer));
    if (written.isOk())
      written = writer->finishLayer(tinyTrace(info, layer));
    if (!written.isOk())
      throw written.message();
  }
  if (auto written = writeTinyInputs(info, uint64_t(kAfterLayers) + 1, *writer); !written.isOk())
    throw written.message();
  if (auto committed = writer->commit(); !committed.isOk())
    throw committed.message();
  std::vector<std::byte> bytes = bytesOfFile(path);
  ::unlink(path.c_str());
  return bytes;
}

void repairProfileChecksums(std::vector<std::byte> &file) {
  constexpr size_t kHeaderOffsetAt = 24, kHeaderBytesAt = 32, kHeaderChecksumAt = 40;
  constexpr size_t kChecksumAt = kProfilePageBytes - 8;
  uint64_t offset = 0, bytes = 0;
  std::memcpy(&offset, &file[kHeaderOffsetAt], 8);
  std::memcpy(&bytes, &file[kHeaderBytesAt], 8);
  std::span<const std::byte> whole(file);
  if (moert::rangeFits(offset, bytes, file.size())) {
    uint64_t checksum = moert::checksum64(whole.subspan(offset, bytes));
    std::memcpy(&file[kHeaderChecksumAt], &checksum, 8);
  }
  uint64_t checksum = moert::checksum64(whole.first(kChecksumAt));
  std::memcpy(&file[kChecksumAt], &checksum, 8);
}
