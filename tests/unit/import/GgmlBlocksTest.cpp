#include "compiler/import/codecs/GgmlBlocks.h"
#include "compiler/import/ShardFile.h"
#include "compiler/import/gguf/GgufHeader.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>

using moec::ShardFile;
using moec::StoredTensor;
using moec::TensorType;

static std::vector<std::byte> dataOf(const ShardFile &file, const StoredTensor &tensor) {
  std::vector<std::byte> data(tensor.end - tensor.begin);
  REQUIRE(file.read(file.header().dataOffset + tensor.begin, data).isOk());
  return data;
}

// Blocks of random bits, and what ggml computes from them; tests/data/gguf/README.md.
TEST_CASE("blocks have the values that ggml gives them, to the bit") {
  const std::string folder = MOE_TEST_DATA_DIR "/gguf/";
  auto blocks = ShardFile::openWithoutHeader(folder + "types.gguf");
  REQUIRE(blocks.isOk());
  const auto header = moec::parseGgufHeader(
      "types.gguf",
      [&](uint64_t offset, std::span<std::byte> out) { return blocks->read(offset, out); },
      blocks->bytes());
  REQUIRE(header.isOk());
  blocks->setHeader(header->shard);
  const auto values = ShardFile::open(folder + "types.safetensors");
  REQUIRE(values.isOk());
  std::set<TensorType> types;
  for (const StoredTensor &tensor : blocks->header().tensors) {
    CAPTURE(tensor.name);
    const StoredTensor *const expected = values->header().find(tensor.name);
    REQUIRE(expected);
    REQUIRE(moec::canDecodeBlocks(tensor.type));
    types.insert(tensor.type);
    const std::vector<std::byte> data = dataOf(*values, *expected);
    std::vector<float> wanted(data.size() / sizeof(float)), found(wanted.size());
    std::memcpy(wanted.data(), data.data(), data.size());
    moec::decodeBlocks(tensor.type, dataOf(*blocks, tensor), found);
    CHECK(found == wanted); // MXFP4's negative zero is 0 in ggml.
  }
  CHECK(types.size() == 27);
}

TEST_CASE("a type without a decoder is known as such") {
  CHECK_FALSE(moec::canDecodeBlocks(TensorType::kNvfp4));
  CHECK_FALSE(moec::canDecodeBlocks(TensorType::kI32));
}

TEST_CASE("blocks of MXFP4 are split into neighbouring codes and scales") {
  std::vector<std::byte> block = {std::byte{127}};
  for (uint32_t i = 0; i < 16; ++i) // Code i in the low half, 15 - i in the high one.
    block.push_back(std::byte(i | (15 - i) << 4));
  std::vector<std::byte> codes(16), scales(1);
  moec::splitMxfp4Blocks(block, codes, scales);
  CHECK(scales[0] == std::byte{127});
  for (uint32_t i = 0; i < 32; ++i)
    CHECK((std::to_integer<uint32_t>(codes[i / 2]) >> i % 2 * 4 & 15) == (i < 16 ? i : 31 - i));
}
