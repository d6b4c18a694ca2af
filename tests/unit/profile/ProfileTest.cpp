// A profile is read back unchanged, in one go or after an interruption, and a broken one is
// refused.
#include "compiler/profile/ProfileWriter.h"
#include "runtime/format/Reader.h"
#include "tests/unit/profile/TinyProfile.h"
#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <unistd.h>

using namespace moec;
using namespace moert;

namespace {

std::unique_ptr<CalibrationProfile> opened(const MemorySource &source) {
  auto profile = CalibrationProfile::open(source);
  REQUIRE_MESSAGE(profile.isOk(), profile.status().message());
  return std::move(profile).value();
}

/// The error of open(), or of the first layer that cannot be read.
std::string refusalOf(const std::vector<std::byte> &file) {
  MemorySource source("broken.profile", file);
  auto profile = CalibrationProfile::open(source);
  Status status = profile.status();
  if (profile.isOk())
    for (size_t i = 0; i < (*profile)->info().moeLayers.size() && status.isOk(); ++i)
      status = (*profile)->layerInputs(i).status();
  if (profile.isOk())
    for (size_t i = 0; i < (*profile)->info().residentInputs.size() && status.isOk(); ++i)
      status = (*profile)->residentMoments(i).status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().rfind("broken.profile: ", 0) == 0);
  return status.message();
}

void checkRefused(const char *message, const std::function<void(std::vector<std::byte> &)> &breakIt,
                  bool repairs = true) {
  std::vector<std::byte> file = tinyProfile();
  breakIt(file);
  if (repairs)
    repairProfileChecksums(file);
  std::string found = refusalOf(file);
  CHECK_MESSAGE(found.find(message) != std::string::npos, found);
}

template <typename T> void put(std::vector<std::byte> &file, size_t at, T value) {
  std::memcpy(&file[at], &value, sizeof(value));
}

/// The tiny profile with another header and unchanged sections.
std::vector<std::byte> withHeader(const std::function<void(ProfileHeader &)> &change) {
  std::vector<std::byte> file = tinyProfile();
  auto prefix = decodeProfilePrefix(std::span(file).first(kProfilePageBytes), file.size());
  REQUIRE(prefix.isOk());
  auto header = decodeProfileHeader(std::span(file).subspan(prefix->headerOffset));
  REQUIRE(header.isOk());
  change(*header);
  std::vector<std::byte> bytes = encodeProfileHeader(*header);
  file.resize(prefix->headerOffset);
  file.insert(file.end(), bytes.begin(), bytes.end());
  auto page =
      encodeProfilePrefix({file.size(), prefix->headerOffset, bytes.size(), checksum64(bytes)});
  std::copy(page.begin(), page.end(), file.begin());
  return file;
}

void checkHeaderRefused(const char *message, const std::function<void(ProfileHeader &)> &change) {
  std::string found = refusalOf(withHeader(change));
  CHECK_MESSAGE(found.find(message) != std::string::npos, found);
}

} // namespace

// docs/changing-the-format.md: MOE_WRITE_FROZEN=1 build/release/tests/profile_test
// -tc="the fuzzer's seed is written on demand"
TEST_CASE("the fuzzer's seed is written on demand") {
  if (!std::getenv("MOE_WRITE_FROZEN"))
    return;
  const std::vector<std::byte> file = tinyProfile();
  std::ofstream seed(std::string(MOE_TEST_DATA_DIR) +
                         "/../fuzz/corpus/calibration_profile/whole_tiny",
                     std::ios::binary);
  seed.write(reinterpret_cast<const char *>(file.data()), std::streamsize(file.size()));
  CHECK(seed.good());
}

TEST_CASE("a profile is read as it was written") {
  std::vector<std::byte> file = tinyProfile();
  MemorySource source("tiny", file);
  auto profile = opened(source);
  CalibrationInfo info = profile->info();
  CalibrationInfo expected = tinyProfileInfo();
  REQUIRE(info.moeLayers.size() == expected.moeLayers.size());
  for (size_t i = 0; i < info.moeLayers.size(); ++i) {
    auto trace = profile->layerTrace(i);
    REQUIRE_MESSAGE(trace.isOk(), trace.status().message());
    CHECK(*trace == tinyTrace(expected, i));
    expected.moeLayers[i].counts = info.moeLayers[i].counts;
    expected.moeLayers[i].weightSums = info.moeLayers[i].weightSums;
  }
  CHECK(info == expected);
  for (size_t i = 0; i < info.residentInputs.size(); ++i) {
    auto moments = profile->residentMoments(i);
    REQUIRE_MESSAGE(moments.isOk(), moments.status().message());
    CHECK(moments->cols == info.residentInputs[i].cols);
    CHECK(moments->weight == 12);
    CHECK(moments->blocks == tinyMoments(info, i).blocks);
  }
}

TEST_CASE("moments over two blocks take the lower triangles of both") {
  CalibrationInfo info = tinyProfileInfo();
  info.residentInputs = {{kAfterLayers, kMomentInputs + 3, {"head"}}};
  auto layout = layoutOf(info);
  REQUIRE(layout.isOk());
  const uint64_t numbers = uint64_t(kMomentInputs) * (kMomentInputs + 1) / 2 + 6;
  CHECK(layout->inputs[0].bytes == roundUp(numbers * 4, kProfilePageBytes));
  CHECK(layout->headerOffset == layout->inputs[0].offset + layout->inputs[0].bytes);
}

TEST_CASE("moments are of every n-th token, of at most twice as many as a block has inputs") {
  CHECK(residentMomentStep(1) == 1);
  CHECK(residentMomentStep(kResidentMomentTokens) == 1);
  CHECK(residentMomentStep(kResidentMomentTokens + 1) == 2);
}

TEST_CASE("counts and weight sums are those of the trace") {
  std::vector<std::byte> file = tinyProfile();
  MemorySource source("tiny", file);
  auto profile = opened(source);
  for (size_t i = 0; i < profile->info().moeLayers.size(); ++i) {
    const CalibrationInfo::MoeLayer &layer = profile->info().moeLayers[i];
    LayerTrace trace = tinyTrace(tinyProfileInfo(), i);
    for (uint32_t expert = 0; expert < layer.experts; ++expert) {
      uint64_t count = 0;
      double sum = 0;
      for (size_t at = 0; at < trace.experts.size(); ++at)
        if (trace.experts[at] == expert) {
          ++count;
          sum += static_cast<double>(trace.weights[at]);
        }
      CHECK(layer.counts[expert] == count);
      CHECK(layer.weightSums[expert] == sum);
    }
  }
}

TEST_CASE("rows come back within half a unit of 11 bits of the row's largest elements") {
  std::vector<std::byte> file = tinyProfile();
  MemorySource source("tiny", file);
  auto profile = opened(source);
  for (size_t i = 0; i < profile->info().moeLayers.size(); ++i) {
    auto inputs = profile->layerInputs(i);
    REQUIRE_MESSAGE(inputs.isOk(), inputs.status().message());
    std::vector<float> rows = tinyRows(profile->info(), i);
    REQUIRE(inputs->rows.size() == rows.size());
    for (size_t at = 0; at < rows.size(); ++at)
      CHECK(std::fabs(inputs->rows[at] - rows[at]) <= std::fabs(rows[at]) * 0x1p-11f);
  }
}

TEST_CASE("a finished layer is read before the next one is written, until its rows are dropped") {
  TemporaryDirectory folder;
  const CalibrationInfo info = tinyProfileInfo();
  auto writer = ProfileWriter::create(folder.path("profile"), info);
  REQUIRE(writer.isOk());
  REQUIRE(writeTinyInputs(info, info.moeLayers[0].layer, *writer).isOk());
  REQUIRE(writer->appendRows(tinyRows(info, 0)).isOk());
  REQUIRE(writer->finishLayer(tinyTrace(info, 0)).isOk());
  auto unfinished = writer->unfinished();
  REQUIRE_MESSAGE(unfinished.isOk(), unfinished.status().message());
  std::vector<std::byte> file = tinyProfile();
  MemorySource source("tiny", file);
  CHECK((*unfinished)->layerInputs(0)->rows == opened(source)->layerInputs(0)->rows);
  writer->dropRows(0);
  CHECK((*unfinished)->layerInputs(0).status().code() == StatusCode::kInvalidInput);
  CHECK(*(*unfinished)->layerTrace(0) == tinyTrace(info, 0));
}

TEST_CASE(
    "a layer with rows of its own length is read as written, without predictions of longer ones") {
  TemporaryDirectory folder;
  CalibrationInfo info = tinyProfileInfo();
  info.residentInputs.clear();
  info.moeLayers.resize(2);
  info.moeLayers[0].hiddenSize = 8;
  auto writer = ProfileWriter::create(folder.path("profile"), info);
  REQUIRE_MESSAGE(writer.isOk(), writer.status().message());
  for (size_t layer = 0; layer < 2; ++layer) {
    const std::vector<float> rows(info.tokens.size() * info.widthOf(layer), 1.5f + float(layer));
    REQUIRE(writer->appendRows(rows).isOk());
    LayerTrace trace = tinyTrace(info, layer);
    trace.predictions.clear();
    REQUIRE(writer->finishLayer(trace).isOk());
  }
  REQUIRE(writer->commit().isOk());
  auto profile = CalibrationProfile::open(folder.path("profile"));
  REQUIRE_MESSAGE(profile.isOk(), profile.status().message());
  CHECK((*profile)->layerInputs(0)->rows == std::vector<float>(12 * 8, 1.5f));
  CHECK((*profile)->layerInputs(1)->rows == std::vector<float>(12 * 24, 2.5f));
  CHECK((*profile)->layerTrace(0)->predictions.empty());
  info.moeLayers[0].hiddenSize = 24;
  CHECK(ProfileWriter::create(folder.path("other"), info)
            .status()
            .message()
            .find("a hidden size of its own of 24, expected less than the profile's 24") !=
        std::string::npos);
}

TEST_CASE("inputs have the chosen experts and weights of the trace") {
  std::vector<std::byte> file = tinyProfile();
  MemorySource source("tiny", file);
  auto profile = opened(source);
  auto inputs = profile->layerInputs(2);
  REQUIRE(inputs.isOk());
  LayerTrace trace = tinyTrace(profile->info(), 2);
  CHECK(inputs->tokens == profile->info().tokens.size());
  CHECK(inputs->experts == std::vector<int32_t>(trace.experts.begin(), trace.experts.end()));
  CHECK(inputs->weights == trace.weights);
}

TEST_CASE("the same profile is written from one interruption to the next as in one go") {
  const std::string path = "resumed-profile-" + std::to_string(::getpid());
  CalibrationInfo info = tinyProfileInfo();
  ProfileHeader header;
  size_t inputs = 0;
  for (size_t layer = 0; layer < info.moeLayers.size(); ++layer) {
    auto writer = layer == 0 ? ProfileWriter::create(path, info)
                             : ProfileWriter::resume(path, header, layer, inputs);
    REQUIRE_MESSAGE(writer.isOk(), writer.status().message());
    REQUIRE(writer->finishedLayers() == layer);
    REQUIRE(writer->finishedInputs() == inputs);
    REQUIRE(writeTinyInputs(info, info.moeLayers[layer].layer, *writer).isOk());
    REQUIRE(writer->appendRows(tinyRows(info, layer)).isOk());
    REQUIRE(writer->finishLayer(tinyTrace(info, layer)).isOk());
    REQUIRE(writer->sync().isOk());
    header = writer->header();
    inputs = writer->finishedInputs();
    if (layer + 1 == info.moeLayers.size()) {
      REQUIRE(writeTinyInputs(info, uint64_t(kAfterLayers) + 1, *writer).isOk());
      REQUIRE(writer->commit().isOk());
      break;
    }
    // The unfinished part of the next layer is discarded.
    REQUIRE(writer->appendRows(tinyRows(info, layer)).isOk());
    writer->keep();
  }
  CHECK(bytesOfFile(path) == tinyProfile());
  ::unlink(path.c_str());
}

TEST_CASE("rows that are not finite are refused") {
  const std::string path = "infinite-profile-" + std::to_string(::getpid());
  CalibrationInfo info = tinyProfileInfo();
  for (float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    auto writer = ProfileWriter::create(path, info);
    REQUIRE(writer.isOk());
    std::vector<float> rows = tinyRows(info, 0);
    rows[2 * info.hiddenSize + 5] = bad;
    Status status = writer->appendRows(rows);
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK(status.message().find("for token 2") != std::string::npos);
  }
}

TEST_CASE("a file that is not a profile is refused as such") {
  std::vector<std::byte> text(5000, std::byte('x'));
  CHECK(refusalOf(text).find("this is not a calibration profile: it does not begin with") !=
        std::string::npos);
  CHECK(refusalOf({}).find("this is not a calibration profile: it has 0 bytes") !=
        std::string::npos);
}

TEST_CASE("another version and another byte order are refused, with both values") {
  checkRefused("the profile is format 1.1, this program reads 3.x; calibrate again",
               [](auto &f) { put<uint16_t>(f, 12, 1); });
  checkRefused("the file is not little-endian", [](auto &f) { put<uint32_t>(f, 8, 0x04030201); });
}

TEST_CASE("a damaged byte is found wherever it is") {
  const size_t size = tinyProfile().size();
  for (size_t at = 0; at < size; at += 97)
    checkRefused(
        "", [at](auto &f) { f[at] ^= std::byte(0x10); }, false);
}

TEST_CASE("a truncated file and one with extra bytes are refused, with both sizes") {
  checkRefused("it is cut short", [](auto &f) { f.pop_back(); });
  checkRefused("something follows it", [](auto &f) { f.push_back(std::byte(0)); });
}

TEST_CASE("unused bytes of the first page must be zero") {
  checkRefused("bytes that this version does not define", [](auto &f) { f[100] = std::byte(1); });
}

TEST_CASE("a header that does not end with the file is refused") {
  checkRefused("expected it to end with the file", [](auto &f) { put<uint64_t>(f, 24, 4096); });
  checkRefused("the header has 0 bytes", [](auto &f) { put<uint64_t>(f, 32, 0); });
  checkRefused("the header has 18446744073709551615 bytes",
               [](auto &f) { put<uint64_t>(f, 32, UINT64_MAX); });
}

TEST_CASE("sizes that do not fit the file are refused") {
  checkHeaderRefused("expected from the sizes of the sections",
                     [](ProfileHeader &h) { h.info.hiddenSize = UINT32_MAX; });
  checkHeaderRefused("expected from the sizes of the sections", [](ProfileHeader &h) {
    h.info.moeLayers.pop_back();
    h.checksums.pop_back();
  });
}

TEST_CASE("a header that contradicts itself is refused") {
  checkHeaderRefused("expected whole windows of 5", [](auto &h) { h.info.windowTokens = 5; });
  checkHeaderRefused("expected at least 1 of each", [](auto &h) { h.info.windowTokens = 0; });
  checkHeaderRefused("token id 50, expected 0 to 49", [](auto &h) { h.info.tokens[3] = 50; });
  checkHeaderRefused("the texts have 4 windows, the tokens make 3",
                     [](auto &h) { h.info.texts[1].windows = 2; });
  checkHeaderRefused("expected ascending layers", [](auto &h) { h.info.moeLayers[1].layer = 1; });
  checkHeaderRefused("resident input 1 is of layer 0 and follows layer 2", [](auto &h) {
    h.info.residentInputs[0].layer = 2;
    h.info.residentInputs[1].layer = 0;
  });
  checkHeaderRefused("resident input 0 has 0 elements and 2 matrices",
                     [](auto &h) { h.info.residentInputs[0].cols = 0; });
  checkHeaderRefused("resident input 1 has 24 elements and 0 matrices",
                     [](auto &h) { h.info.residentInputs[1].weights.clear(); });
  checkHeaderRefused("7 chosen of 6 experts", [](auto &h) { h.info.moeLayers[1].topK = 7; });
  checkHeaderRefused("0 experts, expected 1 to", [](auto &h) { h.info.moeLayers[1].experts = 0; });
  checkHeaderRefused("experts were chosen 25 times, expected 24",
                     [](auto &h) { ++h.info.moeLayers[0].counts[0]; });
  checkHeaderRefused("weights sum up to nan",
                     [](auto &h) { h.info.moeLayers[0].weightSums[0] = std::nan(""); });
}

TEST_CASE("a header whose counts differ from the trace is refused") {
  checkHeaderRefused("are not those of the trace", [](auto &h) {
    std::vector<uint64_t> &counts = h.info.moeLayers[0].counts;
    --*std::max_element(counts.begin(), counts.end());
    ++*std::min_element(counts.begin(), counts.end());
  });
}

namespace {

/// Applies a change to the first layer's token data, with checksums that match.
void checkSectionRefused(const char *message, size_t offsetInTrace, uint32_t word, bool inRows) {
  CalibrationInfo info = tinyProfileInfo();
  auto layout = layoutOf(info);
  REQUIRE(layout.isOk());
  const ProfileLayerPlace &place = layout->layers[0];
  size_t begin = inRows ? place.rowsOffset : place.traceOffset;
  size_t bytes = inRows ? place.rowsBytes : place.traceBytes;
  uint64_t checksum = 0;
  std::vector<std::byte> sound = tinyProfile();
  put(sound, begin + offsetInTrace, word);
  checksum = checksum64(std::span<const std::byte>(sound).subspan(begin, bytes));
  std::vector<std::byte> file = withHeader([&](ProfileHeader &header) {
    (inRows ? header.checksums[0].rows : header.checksums[0].trace) = checksum;
  });
  put(file, begin + offsetInTrace, word);
  std::string found = refusalOf(file);
  CHECK_MESSAGE(found.find(message) != std::string::npos, found);
}

} // namespace

TEST_CASE("moments with impossible values are refused") {
  const ProfileInputPlace place = layoutOf(tinyProfileInfo())->inputs[1];
  const uint32_t nan = 0x7fc00000, minusOne = 0xbf800000;
  for (auto [word, message] :
       {std::pair(nan, "resident input 1: found the moment nan"),
        std::pair(minusOne, "found the moment -1 of an input's square, expected a finite number of "
                            "at least 0")}) {
    std::vector<std::byte> sound = tinyProfile();
    put(sound, place.offset, word);
    const uint64_t checksum =
        checksum64(std::span<const std::byte>(sound).subspan(place.offset, place.bytes));
    std::vector<std::byte> file =
        withHeader([&](ProfileHeader &header) { header.inputChecksums[1] = checksum; });
    put(file, place.offset, word);
    const std::string found = refusalOf(file);
    CHECK_MESSAGE(found.find(message) != std::string::npos, found);
  }
}

TEST_CASE("sections with impossible values are refused") {
  const size_t tokens = tinyProfileInfo().tokens.size(), hidden = tinyProfileInfo().hiddenSize;
  const uint32_t nan = 0x7fc00000, one = 0x3f800000;
  checkSectionRefused("is not finite", 0, 0x7c007c00, true);
  checkSectionRefused("is not finite", tokens * hidden * 2, 0x7fff7fff, true);
  checkSectionRefused("an input has the length nan", 0, nan, false);
  checkSectionRefused("an expert's weight is nan", tokens * 4, nan, false);
  const size_t probabilities = tokens * 4 * (1 + 2);
  checkSectionRefused("a candidate of probability nan", probabilities, nan, false);
  checkSectionRefused("a candidate of probability 1, expected 0 to 0.5", probabilities + 4, one,
                      false);
  // 6 candidates for this layer and for each of 3 layers ahead.
  const size_t experts = tokens * 4 * (1 + 2 + 4 * 6);
  checkSectionRefused("has expert 9", experts, 9, false);
  checkSectionRefused("twice", experts, 0x00030003, false);
}
