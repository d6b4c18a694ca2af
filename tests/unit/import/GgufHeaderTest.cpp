#include "compiler/import/gguf/GgufHeader.h"
#include "tests/unit/import/TestCheckpoint.h"
#include "tests/unit/import/TestGguf.h"

#include <doctest/doctest.h>

#include <cstring>

using moec::GgufHeader;
using moec::TensorType;
using moert::Result;

static Result<GgufHeader> parse(const std::string &file) {
  return moec::parseGgufHeader(
      "m.gguf",
      [&](uint64_t offset, std::span<std::byte> out) {
        REQUIRE(offset + out.size() <= file.size());
        std::memcpy(out.data(), file.data() + offset, out.size());
        return moert::Status();
      },
      file.size());
}

static TestGguf tiny() {
  TestGguf file;
  file.add("general.architecture", "llama");
  file.add("llama.block_count", 2u);
  file.addTensor("b", {2, 3});
  file.addTensor("a", {5});
  return file;
}

TEST_CASE("keys and tensors of a file are read, shapes with the row last") {
  TestGguf file = tiny();
  file.add("x.epsilon", 1e-5f);
  file.add("tokenizer.ggml.tokens", std::vector<std::string>{"a", "\u00e9"});
  for (const uint32_t version : {2u, 3u}) {
    file.version = version;
    const Result<GgufHeader> header = parse(file.bytes());
    REQUIRE(header.isOk());
    CHECK(header->keys["llama.block_count"] == 2);
    CHECK(header->keys["x.epsilon"].dump() == "1e-05");
    CHECK(header->keys["tokenizer.ggml.tokens"][1] == "\u00e9");
    REQUIRE(header->shard.tensors.size() == 2);
    const moec::StoredTensor &first = header->shard.tensors[0], &second = header->shard.tensors[1];
    CHECK(first.name == "a");
    CHECK(first.begin == 32);
    CHECK(first.end == 52);
    CHECK(second.shape == std::vector<uint64_t>{2, 3});
    CHECK(second.type == TensorType::kF32);
    CHECK(header->shard.dataOffset % 32 == 0);
    CHECK(header->shard.dataOffset + 64 == file.bytes().size());
  }
}

TEST_CASE("the key of the alignment decides where tensors are") {
  TestGguf file = tiny();
  file.alignment = 64;
  file.add("general.alignment", 64u);
  const Result<GgufHeader> header = parse(file.bytes());
  REQUIRE(header.isOk());
  CHECK(header->shard.tensors[0].begin == 64);
}

TEST_CASE("a block of a quantized type takes the bytes of its codes and scales") {
  TestGguf file;
  file.tensors.push_back({"q", {2, 64}, 8, std::string(4 * 34, 'x')});
  const Result<GgufHeader> header = parse(file.bytes());
  REQUIRE(header.isOk());
  CHECK(header->shard.tensors[0].type == TensorType::kQ8x0);
  CHECK(header->shard.tensors[0].end == 4 * 34);
}

TEST_CASE("every truncation of a file is refused") {
  const std::string file = tiny().bytes();
  for (size_t size = 0; size + 12 < file.size(); ++size) // The last 12 bytes are padding.
    checkRefused(parse(file.substr(0, size)).status(), {"m.gguf"});
}

TEST_CASE("broken headers are refused with what was found and expected") {
  const auto refused = [](const TestGguf &file, const std::vector<std::string> &parts) {
    checkRefused(parse(file.bytes()).status(), parts);
  };
  TestGguf file = tiny();
  checkRefused(parse("GGML" + file.bytes().substr(4)).status(), {"GGML"});
  file.version = 1;
  refused(file, {"version 1", "2 or 3"});
  file.version = 3u << 24;
  refused(file, {"big-endian"});

  file = tiny();
  file.add("llama.block_count", 3u);
  refused(file, {"\"llama.block_count\" twice"});
  file = tiny();
  file.add("general.alignment", 24u);
  refused(file, {"24", "power of two"});
  file = tiny();
  file.keys.push_back(ggufText("k") + bytesOf(uint32_t{13}));
  refused(file, {"type 13"});
  file = tiny();
  file.keys.push_back(ggufText("k") + bytesOf(uint32_t{7}) + '\2');
  refused(file, {"flag 2"});
  file = tiny();
  file.keys.push_back(ggufText("k") + bytesOf(uint32_t{8}) + bytesOf(~uint64_t{7}));
  refused(file, {"18446744073709551608 bytes"});
  file = tiny();
  file.keys.push_back(ggufText("k") + bytesOf(uint32_t{9}) + bytesOf(uint32_t{0}) +
                      bytesOf(uint64_t{1} << 60));
  refused(file, {"1152921504606846976 elements"});
  file = tiny();
  file.keys.push_back(ggufText("k\xff") + bytesOf(uint32_t{7}) + '\1');
  refused(file, {"UTF-8"});

  file = tiny();
  file.tensors[1].name = "b";
  refused(file, {"tensor \"b\" twice"});
  file = tiny();
  file.tensors[1].type = 200;
  refused(file, {"tensor \"a\"", "type 200"});
  file = tiny();
  file.tensors[1].type = 2;
  refused(file, {"rows of 5 elements", "multiple of 32"});
  file = tiny();
  file.tensors[0].shape = {2, 2};
  file.tensors[0].bytes.resize(40); // The next tensor is too far away.
  refused(file, {"found offset 64, expected 32"});
  file = tiny();
  file.tensors[0].shape = {uint64_t{1} << 62, 4};
  refused(file, {"does not overflow"});
  file = tiny();
  file.tensors[0].shape = {1, 1, 1, 2, 3};
  refused(file, {"5 dimensions"});
  file = tiny();
  file.tensors[1].shape = {500};
  refused(file, {"tensor \"a\"", "the end of the file"});
}
