#include "compiler/import/Safetensors.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

using moec::parseSafetensorsHeader;
using moec::ShardHeader;
using moec::TensorType;

namespace {

ShardHeader parse(const std::string &header, size_t dataBytes) {
  auto result = parseSafetensorsHeader("m.safetensors", header, 8 + header.size() + dataBytes);
  INFO(result.status().message());
  REQUIRE(result.isOk());
  return std::move(result).value();
}

} // namespace

TEST_CASE("the header of the format's own example is read") {
  const std::string text = R"({"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})";
  REQUIRE(text.size() == 0x3c);
  const ShardHeader header = parse(text, 16);
  REQUIRE(header.tensors.size() == 1);
  CHECK(header.dataOffset == 8 + 0x3c);
  CHECK(header.tensors[0].name == "test");
  CHECK(header.tensors[0].type == TensorType::kI32);
  CHECK(header.tensors[0].shape == std::vector<uint64_t>{2, 2});
  CHECK(header.tensors[0].begin == 0);
  CHECK(header.tensors[0].end == 16);
}

TEST_CASE("an empty header with white space around it and no data is valid") {
  CHECK(parse("{}\r \t\n", 0).tensors.empty());
  CHECK(parse(" \n{}", 0).tensors.empty());
}

TEST_CASE("metadata of strings, possibly empty, is skipped") {
  CHECK(parse(R"({"__metadata__":{"format":"pt"}})", 0).tensors.empty());
  CHECK(parse(R"({"__metadata__":null})", 0).tensors.empty());
}

TEST_CASE("unknown keys of a tensor are skipped, nested or not") {
  const ShardHeader header =
      parse(R"({"a":{"x":{"y":[1,{"z":null}]},"dtype":"U8","q":-1.5,"shape":[2],)"
            R"("data_offsets":[0,2],"w":"v"}})",
            2);
  CHECK(header.tensors.at(0).type == TensorType::kU8);
}

TEST_CASE("a scalar has one element and a zero dimension none") {
  const ShardHeader header = parse(R"({"none":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
                                   R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})",
                                   8);
  CHECK(header.find("none")->end == 0);
  CHECK(header.find("scalar")->shape.empty());
}

TEST_CASE("types below a byte are packed") {
  CHECK(parse(R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2).tensors.size() == 1);
  CHECK(parse(R"({"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3).tensors.size() ==
        1);
}

TEST_CASE("tensors are found by name whatever their order in the file") {
  const ShardHeader header = parse(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                                   R"("c":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                   R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                                   4);
  CHECK(header.find("a")->begin == 2);
  CHECK(header.find("b")->begin == 1);
  CHECK(header.find("c")->begin == 0);
  CHECK(header.find("d") == nullptr);
  CHECK(header.find("") == nullptr);
}

TEST_CASE("every type of the format is recognized by its name") {
  for (const char *name :
       {"BOOL",    "F4",          "F6_E2M3",     "F6_E3M2", "U8",  "I8",  "F8_E5M2", "F8_E4M3",
        "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",     "U16", "F16", "BF16",    "I32",
        "U32",     "F32",         "C64",         "F64",     "I64", "U64"}) {
    const ShardHeader header = parse(std::string("{\"a\":{\"dtype\":\"") + name +
                                         "\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                                     0);
    CHECK(moec::tensorTypeName(header.tensors[0].type) == name);
  }
}

TEST_CASE("a header length is little-endian and may reach the end of the file") {
  const auto length =
      moec::safetensorsHeaderLength("m", std::string("\x02\x01\0\0\0\0\0\0", 8), 8 + 0x102);
  REQUIRE(length.isOk());
  CHECK(*length == 0x102);
}

TEST_CASE("names in messages are printable and truncated") {
  const std::string header = "{\"" + std::string(5000, 'n') + "\\n\\u0007\":1}";
  const moert::Status status =
      parseSafetensorsHeader("m.safetensors", header, 8 + header.size()).status();
  CHECK_FALSE(status.isOk());
  CHECK(status.message().size() < 400);
  const moert::Status bell = parseSafetensorsHeader("m", "{\"\\u0007\":1}", 20).status();
  CHECK(bell.message().find("\\x07") != std::string::npos);
}
