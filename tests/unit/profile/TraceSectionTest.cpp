#include "compiler/profile/TraceSection.h"

#include "runtime/format/Reader.h"
#include "tests/unit/profile/TinyProfile.h"

#include <cmath>
#include <cstring>
#include <doctest/doctest.h>

using namespace moec;

namespace {

constexpr uint32_t kExperts[] = {6, 6, 6, 6, 3};
constexpr size_t kHeaderBytes = 24 + 5 * 20;

std::unique_ptr<CalibrationProfile> openTiny(const moert::MemorySource &source) {
  auto profile = CalibrationProfile::open(source);
  REQUIRE(profile.isOk());
  return std::move(profile).value();
}

PlanTrace tracedTiny(uint64_t mostBytes = 1 << 20) {
  const std::vector<std::byte> file = tinyProfile();
  const moert::MemorySource source("tiny", file);
  auto trace = makePlanTrace(*openTiny(source), mostBytes);
  REQUIRE(trace.isOk());
  return std::move(trace).value();
}

std::string refusal(std::span<const std::byte> bytes,
                    std::span<const uint32_t> experts = kExperts) {
  auto trace = decodeTrace(bytes, experts);
  REQUIRE_FALSE(trace.isOk());
  CHECK(trace.status().code() == moert::StatusCode::kInvalidInput);
  return trace.status().message();
}

void set(std::vector<std::byte> &bytes, size_t offset, uint32_t value) {
  std::memcpy(&bytes[offset], &value, sizeof(value));
}

} // namespace

TEST_CASE("a trace has the profile's chosen experts and the candidates of later routers") {
  const PlanTrace trace = tracedTiny();
  CHECK(trace.windows == 3);
  REQUIRE(trace.layers.size() == 5);
  const LayerTrace second = tinyTrace(tinyProfileInfo(), 1);
  // The middle window comes last: it is held out for forecasts.
  const auto reordered = [&](const auto &ids, uint32_t perToken) {
    auto moved = ids;
    moved.clear();
    const size_t windowIds = size_t(trace.windowTokens) * perToken;
    for (size_t window : {0, 2, 1})
      moved.insert(moved.end(), ids.begin() + ptrdiff_t(window * windowIds),
                   ids.begin() + ptrdiff_t((window + 1) * windowIds));
    return moved;
  };
  CHECK(trace.layers[1].chosen == reordered(second.experts, second.topK));
  REQUIRE(trace.layers[1].ahead.size() == 3);
  CHECK(trace.layers[1].ahead[2].experts ==
        reordered(second.predictions[2].experts, second.predictions[2].perToken));
  CHECK(trace.layers[1].ahead[0].probabilities[0] == 128); // 0.5 * 255, rounded
  CHECK(trace.layers[4].ahead.empty());
  CHECK(trace.hasScores());
  CHECK(trace.layers[1].weights == reordered(second.weights, second.topK));
  CHECK(trace.layers[1].candidates == second.candidates.perToken);
  CHECK(trace.layers[1].likeliest ==
        reordered(second.candidates.experts, second.candidates.perToken));
  CHECK(trace.layers[1].likelihoods ==
        reordered(second.candidates.probabilities, second.candidates.perToken));
}

TEST_CASE("a trace is read back unchanged") {
  const PlanTrace trace = tracedTiny();
  auto read = decodeTrace(encodeTrace(trace), kExperts);
  REQUIRE(read.isOk());
  CHECK(*read == trace);
}

TEST_CASE("a trace without scores is one of the first version") {
  PlanTrace trace = tracedTiny();
  for (TracedLayer &layer : trace.layers) {
    layer.weights.clear();
    layer.likeliest.clear();
    layer.likelihoods.clear();
    layer.candidates = 0;
  }
  CHECK_FALSE(trace.hasScores());
  const std::vector<std::byte> bytes = encodeTrace(trace);
  CHECK(bytes[4] == std::byte(1));
  auto read = decodeTrace(bytes, kExperts);
  REQUIRE(read.isOk());
  CHECK(*read == trace);
}

TEST_CASE("what was read is kept, and an earlier version of the trace does not have it") {
  PlanTrace trace = tracedTiny();
  CHECK(encodeTrace(trace)[4] == std::byte(2));
  trace.readRuns = {3, 7, UINT64_MAX};
  const std::vector<std::byte> bytes = encodeTrace(trace);
  CHECK(bytes[4] == std::byte(3));
  auto read = decodeTrace(bytes, kExperts);
  REQUIRE(read.isOk());
  CHECK(*read == trace);
  trace.readRuns->clear(); // It is known that nothing was read.
  CHECK(decodeTrace(encodeTrace(trace), kExperts)->readRuns == trace.readRuns);
  for (size_t size = bytes.size() - 4 * sizeof(uint64_t); size < bytes.size(); ++size)
    CHECK_FALSE(decodeTrace(std::span(bytes).first(size), kExperts).isOk());
  trace.readRuns = {3, 3};
  CHECK(refusal(encodeTrace(trace)) ==
        "the trace's runs of text 0 and 1 do not ascend, expected ascending hashes");
}

TEST_CASE("impossible scores are refused") {
  const auto refused = [](auto change) {
    PlanTrace trace = tracedTiny();
    change(trace.layers[1]);
    return refusal(encodeTrace(trace));
  };
  CHECK(refused([](TracedLayer &layer) { layer.weights[3] = NAN; }).find("has a score of nan") !=
        std::string::npos);
  CHECK(refused([](TracedLayer &layer) { layer.weights[3] = -INFINITY; }) ==
        "the trace has a score of -inf, expected -1e+06 to 1e+06");
  CHECK(refused([](TracedLayer &layer) { layer.likelihoods[0] = 1.5; }) ==
        "the trace has a score of 1.5, expected 0 to 1");
  CHECK(refused([](TracedLayer &layer) { layer.likeliest[0] = 6; }) ==
        "the trace names expert 6 of a layer that has 6");
  CHECK(refused([](TracedLayer &layer) { layer.candidates = 7; }) ==
        "the trace has scores of 7 experts in MoE layer 1, expected at most 6");
}

TEST_CASE("experts beyond 256 take two bytes each") {
  PlanTrace trace{1, 1, {{300, 2, {299, 7}, {}}}};
  const std::vector<std::byte> bytes = encodeTrace(trace);
  CHECK(bytes.size() == 24 + 20 + 4);
  auto read = decodeTrace(bytes, std::vector<uint32_t>{300});
  REQUIRE(read.isOk());
  CHECK(*read == trace);
}

TEST_CASE("a third of a trace's windows is for forecasts, spread over the text like the others") {
  CHECK(tracedWindows(12, 6) == std::vector<uint32_t>{1, 5, 7, 11, 3, 9});
  CHECK(tracedWindows(7, 1) == std::vector<uint32_t>{3});
  const auto deciding = [](uint32_t windowTokens, uint32_t windows) {
    return PlanTrace{windowTokens, windows, {}}.decidingTokens();
  };
  CHECK(deciding(512, 6) == 4 * 512);
  CHECK(deciding(512, 2) == 512);
  CHECK(deciding(100, 1) == 100 - 50 / 3); // Prompts of 50 tokens.
  CHECK(deciding(3, 1) == 2);
  CHECK(deciding(2, 1) == 2); // One decoded token cannot be divided.
}

TEST_CASE(
    "no table counts what plans are forecast on, nor the trace if there is enough beside it") {
  CalibrationInfo info;
  info.windowTokens = 10;
  info.tokens.resize(30);
  const PlanTrace small{10, 3, {}};
  CHECK(heldOutTokens(info, small) == std::vector<TokenRange>{{10, 20}});
  info.tokens.resize(60);
  CHECK(heldOutTokens(info, small) == std::vector<TokenRange>{{10, 20}, {50, 60}, {30, 40}});
  info.tokens.resize(10);
  CHECK(heldOutTokens(info, PlanTrace{10, 1, {}}) == std::vector<TokenRange>{{9, 10}});
}

TEST_CASE("fewer bytes hold fewer windows, spread over the text, and at least one") {
  const PlanTrace all = tracedTiny(), one = tracedTiny(1);
  REQUIRE(one.windows == 1);
  // The middle one of three, which is the last in a trace of all three.
  const auto begin = all.layers[0].chosen.begin() + 2 * 4 * 2;
  CHECK(one.layers[0].chosen == std::vector<uint16_t>(begin, begin + 4 * 2));
  CHECK(encodeTrace(one).size() < encodeTrace(all).size());
}

TEST_CASE("a trace that is truncated anywhere is refused") {
  const std::vector<std::byte> bytes = encodeTrace(tracedTiny());
  for (size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decodeTrace(std::span(bytes).first(size), kExperts).isOk());
}

TEST_CASE("bytes after a trace are refused") {
  std::vector<std::byte> bytes = encodeTrace(tracedTiny());
  bytes.push_back(std::byte(0));
  CHECK(refusal(bytes) == "the trace is followed by 1 bytes");
}

TEST_CASE("a trace of other layers is refused, with both numbers") {
  const std::vector<std::byte> bytes = encodeTrace(tracedTiny());
  CHECK(refusal(bytes, std::span(kExperts).first(4)) == "the trace has 5 MoE layers, expected 4");
  const uint32_t other[] = {6, 6, 7, 6, 3};
  CHECK(refusal(bytes, other) == "the trace has 6 experts in MoE layer 2, expected 7");
}

TEST_CASE("another version of the trace is refused") {
  std::vector<std::byte> bytes = encodeTrace(tracedTiny());
  set(bytes, 4, 4);
  CHECK(refusal(bytes) == "the trace has version 4, expected 1 to 3");
}

TEST_CASE("a section without the magic number is not reported as another version") {
  for (uint32_t place : {0, 20}) { // The magic number, and what is always 0.
    std::vector<std::byte> bytes = encodeTrace(tracedTiny());
    set(bytes, place, 2);
    CHECK(refusal(bytes) == "this is not a trace: it does not begin with its magic number");
  }
}

TEST_CASE("a trace without tokens is refused") {
  std::vector<std::byte> bytes = encodeTrace(tracedTiny());
  set(bytes, 12, 0);
  CHECK(refusal(bytes).find("has 0 windows of 4 tokens") != std::string::npos);
}

TEST_CASE("more experts per token or predictions than a layer has are refused") {
  std::vector<std::byte> bytes = encodeTrace(tracedTiny());
  set(bytes, 24 + 4, 7);
  CHECK(refusal(bytes) == "the trace has 7 experts per token in MoE layer 0, expected 1 to 6");
  bytes = encodeTrace(tracedTiny());
  set(bytes, 24 + 4 * 20 + 8, 1);
  CHECK(refusal(bytes) ==
        "the trace has 1 predictions 1 layers after MoE layer 4, expected at most 0");
}

TEST_CASE("an expert that a layer does not have, or twice for a token, is refused") {
  std::vector<std::byte> bytes = encodeTrace(tracedTiny());
  std::vector<std::byte> unknown = bytes;
  unknown[kHeaderBytes] = std::byte(6);
  CHECK(refusal(unknown) == "the trace names expert 6 of a layer that has 6");
  bytes[kHeaderBytes] = bytes[kHeaderBytes + 1];
  CHECK(refusal(bytes).find("of MoE layer 0 twice for one token") != std::string::npos);
}
