// The activation-path table: its predictions, and the sections that it refuses.
#include "runtime/experts/PathTable.h"

#include "runtime/policy/Eviction.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

using namespace moert;

namespace {

constexpr uint32_t kExperts[] = {2, 3, 4};

/// Layers of 2, 3 and 4 experts.
std::vector<std::byte> section() {
  const uint32_t head[] = {PathTableHeader::kMagic, 1, 3, 0, 2, 3, 4};
  const uint8_t rows[] = {
      // Layer 1 after layer 0: [2][3]
      0, 100, 155, //
      0, 0, 0,     //
      // Layer 2 after layer 1: [3][4]
      10, 20, 30, 40, //
      255, 0, 0, 0,   //
      0, 0, 0, 1,     //
      // Layer 2 after layer 0: [2][4]
      60, 0, 0, 40, //
      0, 50, 50, 0, //
  };
  std::vector<std::byte> bytes(sizeof(head) + sizeof(rows));
  std::memcpy(bytes.data(), head, sizeof(head));
  std::memcpy(bytes.data() + sizeof(head), rows, sizeof(rows));
  return bytes;
}

std::vector<uint32_t> predicted(uint32_t layer, const std::vector<int32_t> &oneBefore,
                                const std::vector<int32_t> &twoBefore) {
  const std::vector<std::byte> bytes = section();
  auto table = PathTable::create(bytes, kExperts);
  REQUIRE_MESSAGE(table.isOk(), table.status().message());
  std::vector<uint32_t> probabilities(kExperts[layer], 7);
  table->predict(layer, oneBefore, twoBefore, probabilities);
  return probabilities;
}

uint32_t part(uint64_t of, uint64_t whole) {
  return static_cast<uint32_t>(of * kFixedPointOne / whole);
}

std::string refusal(std::span<const std::byte> bytes,
                    std::span<const uint32_t> experts = kExperts) {
  auto table = PathTable::create(bytes, experts);
  REQUIRE(!table.isOk());
  CHECK(table.status().code() == StatusCode::kInvalidInput);
  return table.status().message();
}

void set(std::vector<std::byte> &bytes, size_t offset, uint32_t value) {
  std::memcpy(&bytes[offset], &value, sizeof(value));
}

} // namespace

TEST_CASE("a row holds the probabilities after one expert") {
  CHECK(predicted(1, {0}, {}) == std::vector<uint32_t>{0, part(100, 255), part(155, 255)});
}

TEST_CASE("the rows of all experts of both layers before are added") {
  // 10 20 30 40 and 0 0 0 1 of the layer before, 0 50 50 0 of the one before that: 201 in total.
  CHECK(predicted(2, {0, 2}, {1}) ==
        std::vector<uint32_t>{part(10, 201), part(70, 201), part(80, 201), part(41, 201)});
}

TEST_CASE("several tokens' experts count as often as they are listed") {
  // 255 0 0 0 twice, 60 0 0 40 once.
  CHECK(predicted(2, {1, 1}, {0}) == std::vector<uint32_t>{part(570, 610), 0, 0, part(40, 610)});
}

TEST_CASE("one of the two layers is enough") {
  CHECK(predicted(2, {1}, {}) == std::vector<uint32_t>{kFixedPointOne, 0, 0, 0});
  CHECK(predicted(2, {}, {1}) ==
        std::vector<uint32_t>{0, kFixedPointOne / 2, kFixedPointOne / 2, 0});
}

TEST_CASE("the first layer has nothing before it, the second only one layer") {
  CHECK(predicted(0, {}, {}) == std::vector<uint32_t>{0, 0});
  CHECK(predicted(1, {0}, {0}) == predicted(1, {0}, {}));
}

TEST_CASE("an expert that no token chose predicts nothing") {
  CHECK(predicted(1, {1}, {}) == std::vector<uint32_t>{0, 0, 0});
  CHECK(predicted(1, {}, {}) == std::vector<uint32_t>{0, 0, 0});
}

TEST_CASE("a model of one MoE layer, or of none, has a table without rows") {
  const uint32_t one[] = {PathTableHeader::kMagic, 1, 1, 0, 8};
  CHECK(PathTable::create(std::as_bytes(std::span(one)), std::span(one).last(1)).isOk());
  const uint32_t none[] = {PathTableHeader::kMagic, 1, 0, 0};
  CHECK(PathTable::create(std::as_bytes(std::span(none)), {}).isOk());
}

TEST_CASE("a section that is cut at any place, or followed by more bytes, is refused") {
  std::vector<std::byte> bytes = section();
  for (size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(PathTable::create(std::span(bytes).first(size), kExperts).isOk());
  CHECK(refusal(std::span(bytes).first(bytes.size() - 1)) ==
        "the activation-path table ends in the rows of MoE layer 2");
  CHECK(refusal(std::span(bytes).first(20)) ==
        "the activation-path table has 20 bytes, too few for 3 MoE layers");
  CHECK(refusal(std::span(bytes).first(15)) ==
        "the activation-path table has 15 bytes, expected at least 16");
  bytes.push_back(std::byte(0));
  CHECK(refusal(bytes) == "the activation-path table is followed by 1 bytes");
}

TEST_CASE("another kind of section and another version are refused") {
  std::vector<std::byte> bytes = section();
  set(bytes, 0, 0x12345678);
  CHECK(refusal(bytes).find("this is not an activation-path table") == 0);
  bytes = section();
  set(bytes, 12, 1);
  CHECK(refusal(bytes).find("this is not an activation-path table") == 0);
  bytes = section();
  set(bytes, 4, 2);
  CHECK(refusal(bytes) == "the activation-path table has version 2, expected 1");
}

TEST_CASE("a table of other layers is refused with both numbers") {
  std::vector<std::byte> bytes = section();
  CHECK(refusal(bytes, std::span(kExperts).first(2)) ==
        "the activation-path table has 3 MoE layers, expected 2");
  const uint32_t other[] = {2, 5, 4};
  CHECK(refusal(bytes, other) ==
        "the activation-path table has 3 experts in MoE layer 1, expected 5");
  set(bytes, 8, 0xffffffff);
  CHECK(refusal(bytes) == "the activation-path table has 4294967295 MoE layers, expected 3");
}

TEST_CASE("expert counts beyond any file do not overflow the size") {
  const uint32_t huge[] = {0xffffffff, 0xffffffff, 0xffffffff};
  std::vector<std::byte> bytes = section();
  for (size_t i = 0; i < 3; ++i)
    set(bytes, 16 + 4 * i, huge[i]);
  CHECK(refusal(bytes, huge) == "the activation-path table ends in the rows of MoE layer 1");
}
