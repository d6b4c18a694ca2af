#include "compiler/profile/PathSection.h"

#include "runtime/experts/PathTable.h"
#include "runtime/format/Reader.h"
#include "tests/unit/profile/TinyProfile.h"

#include <cstring>
#include <doctest/doctest.h>

using namespace moec;

static LayerTrace traceOf(uint32_t topK, std::vector<uint16_t> experts) {
  LayerTrace trace;
  trace.topK = topK;
  trace.experts = std::move(experts);
  return trace;
}

TEST_CASE("a row has the fraction of an expert's tokens that chose each later one") {
  // Three tokens choose expert 0; two of them then choose 1 and one chooses 2. No token chooses
  // expert 2.
  const LayerTrace before = traceOf(1, {0, 0, 0, 1}), layer = traceOf(1, {1, 2, 1, 0});
  const std::vector<uint8_t> rows = {0,   170, 85, // 2/3 and 1/3 of 255
                                     255, 0,   0,  //
                                     0,   0,   0};
  CHECK(followingFrequencies(before, 3, layer, 3) == rows);
}

TEST_CASE("every pair of chosen experts counts, whatever their ranks") {
  const LayerTrace before = traceOf(2, {0, 1}), layer = traceOf(2, {3, 1});
  CHECK(followingFrequencies(before, 2, layer, 4) ==
        std::vector<uint8_t>{0, 255, 0, 255, 0, 255, 0, 255});
}

TEST_CASE("fractions are rounded to the nearest") {
  // One token in eight: 31.875.
  const LayerTrace before = traceOf(1, {0, 0, 0, 0, 0, 0, 0, 0});
  const LayerTrace layer = traceOf(1, {0, 0, 0, 0, 0, 0, 0, 1});
  CHECK(followingFrequencies(before, 1, layer, 2) == std::vector<uint8_t>{223, 32});
}

TEST_CASE("a profile's section is the table of its layers, and of no others") {
  const std::vector<std::byte> file = tinyProfile();
  const moert::MemorySource source("tiny", file);
  auto profile = CalibrationProfile::open(source);
  REQUIRE(profile.isOk());
  auto section = makePathSection(**profile);
  REQUIRE_MESSAGE(section.isOk(), section.status().message());
  // Header, 5 numbers of experts, 3 matrices of 6 x 6 after the layer before and 2 after the one
  // before that, then 6 x 3 twice.
  CHECK(section->size() == 16 + 5 * 4 + 5 * 36 + 2 * 18);
  const uint32_t experts[] = {6, 6, 6, 6, 3};
  auto table = moert::PathTable::create(*section, experts);
  REQUIRE_MESSAGE(table.isOk(), table.status().message());
  CHECK(!moert::PathTable::create(*section, std::span(experts).first(4)).isOk());

  const LayerTrace two = tinyTrace((*profile)->info(), 2), four = tinyTrace((*profile)->info(), 4);
  const std::vector<uint8_t> rows = followingFrequencies(two, 6, four, 3);
  CHECK(std::memcmp(section->data() + section->size() - rows.size(), rows.data(), rows.size()) ==
        0);
}

TEST_CASE("tokens that are held out are not counted") {
  const std::vector<std::byte> file = tinyProfile();
  const moert::MemorySource source("tiny", file);
  auto profile = CalibrationProfile::open(source);
  REQUIRE(profile.isOk());
  const TokenRange heldOut[] = {{0, 4}, {9, 12}};
  LayerTrace two = tinyTrace((*profile)->info(), 2), four = tinyTrace((*profile)->info(), 4);
  for (LayerTrace *trace : {&two, &four}) {
    const auto at = [&](uint64_t token) {
      return trace->experts.begin() + static_cast<ptrdiff_t>(token * trace->topK);
    };
    trace->experts = std::vector<uint16_t>(at(4), at(9)); // All other tokens.
  }
  const std::vector<uint8_t> rows = followingFrequencies(two, 6, four, 3);
  auto section = makePathSection(**profile, heldOut);
  REQUIRE(section.isOk());
  CHECK(std::memcmp(section->data() + section->size() - rows.size(), rows.data(), rows.size()) ==
        0);
  CHECK(*section != *makePathSection(**profile));
}

TEST_CASE("a damaged profile gives no section") {
  std::vector<std::byte> file = tinyProfile();
  const moert::MemorySource source("tiny", file);
  auto profile = CalibrationProfile::open(source);
  REQUIRE(profile.isOk());
  for (size_t i = file.size() / 3; i < file.size(); ++i)
    file[i] ^= std::byte(0x55);
  CHECK(!makePathSection(**profile).isOk());
}
