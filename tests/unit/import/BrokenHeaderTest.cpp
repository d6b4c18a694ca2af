// Broken safetensors headers, one per row: each is refused with a message that names the file, the
// found and the expected value. SafetensorsTest.cpp has accepted headers.
#include "compiler/import/Safetensors.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

using moec::parseSafetensorsHeader;
using moert::strCat;

namespace {

struct Row {
  const char *name;
  std::string header;
  size_t dataBytes;
  const char *fragment;
};

std::string entry(const std::string &name, const std::string &dtype, const std::string &shape,
                  const std::string &offsets) {
  return strCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                ",\"data_offsets\":", offsets, "}");
}

std::string one(const std::string &dtype, const std::string &shape, const std::string &offsets) {
  return strCat("{", entry("a", dtype, shape, offsets), "}");
}

std::string two(const std::string &first, const std::string &second) {
  return strCat("{", first, ",", second, "}");
}

std::string tenOnOneRange() {
  std::string header = "{";
  for (int i = 0; i < 10; ++i)
    header += strCat(i == 0 ? "" : ",", entry(strCat("t", i), "I32", "[2,2]", "[0,16]"));
  return header + "}";
}

std::string manyDimensions() {
  std::string shape = "[1";
  for (int i = 0; i < 64; ++i)
    shape += ",1";
  return one("F32", shape + "]", "[0,4]");
}

const std::vector<Row> kRows = {
    {"an empty header", "", 0, "broken JSON"},
    {"no JSON", "hello", 0, "broken JSON at byte 1"},
    {"cut off inside the object", "{\"a\":{\"dtype\":\"F32\"", 0, "broken JSON"},
    {"text after the object", "{} x", 0, "broken JSON"},
    {"a zero byte after the object", std::string("{}\0x", 4), 0, "zero byte at byte 2"},
    {"a byte order mark", "\xef\xbb\xbf{}", 0, "byte order mark"},
    {"a name that is not UTF-8", "{\"\xff\":{}}", 0, "broken JSON"},
    {"an array", "[]", 0, "the header: found an array"},
    {"a string", "\"x\"", 0, "the header: found the string \"x\""},
    {"a tensor that is a number", "{\"a\":1}", 0, "tensor \"a\": found the number 1"},
    {"a tensor without dtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, "found no dtype"},
    {"a tensor without shape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4,
     "found no shape"},
    {"a tensor without data_offsets", R"({"a":{"dtype":"F32","shape":[1]}})", 4,
     "found no data_offsets"},
    {"an unknown dtype", one("F33", "[1]", "[0,4]"), 4, "found dtype \"F33\""},
    {"a dtype in lower case", one("f32", "[1]", "[0,4]"), 4, "found dtype \"f32\""},
    {"a dtype that is a number", R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", 4,
     "dtype: found the number 32"},
    {"a negative dimension", one("F32", "[-1]", "[0,4]"), 4, "shape: found a negative"},
    {"a fractional dimension", one("F32", "[1.0]", "[0,4]"), 4, "shape: found a negative, frac"},
    {"a dimension above 64 bits", one("F32", "[18446744073709551616]", "[0,4]"), 4, "too large"},
    {"a dimension that is a string", one("F32", "[\"1\"]", "[0,4]"), 4, "found the string \"1\""},
    {"a shape that is a number", one("F32", "1", "[0,4]"), 4, "shape: found the number 1"},
    {"a shape with a list inside", one("F32", "[[1]]", "[0,4]"), 4, "shape: found an array"},
    {"65 dimensions", manyDimensions(), 4, "more than 64 dimensions"},
    {"a single offset", one("F32", "[1]", "[0]"), 4, "data_offsets: found 1 numbers"},
    {"three offsets", one("F32", "[1]", "[0,4,8]"), 4, "more than 2 numbers"},
    {"a negative offset", one("F32", "[1]", "[-4,0]"), 4, "data_offsets: found a negative"},
    {"dtype twice", R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4,
     "found dtype twice"},
    {"a name twice", two(entry("a", "F32", "[1]", "[0,4]"), entry("a", "F32", "[1]", "[4,8]")), 8,
     "found tensor \"a\" twice"},
    {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__ twice"},
    {"metadata that is a list", R"({"__metadata__":[]})", 0, "__metadata__: found an array"},
    {"metadata that is not strings", R"({"__metadata__":{"n":1}})", 0,
     "__metadata__: found the number 1"},
    {"ten names on one range", tenOnOneRange(), 16, "expected them to begin at 16"},
    {"a first tensor that does not begin at 0", one("F32", "[1]", "[4,8]"), 8, "begin at 0"},
    {"a hole", two(entry("a", "F32", "[1]", "[0,4]"), entry("b", "F32", "[1]", "[8,12]")), 12,
     "expected them to begin at 4"},
    {"an overlap", two(entry("a", "F32", "[2]", "[0,8]"), entry("b", "F32", "[1]", "[4,8]")), 8,
     "found data_offsets [4, 8]"},
    {"an end before the begin", one("F32", "[1]", "[4,0]"), 4, "found data_offsets [4, 0]"},
    {"a shape whose product overflows", one("I32", "[2,18446744073709551614]", "[0,16]"), 16,
     "found shape [2, 18446744073709551614]"},
    {"a shape whose bits overflow", one("I64", "[4611686018427387904]", "[0,16]"), 16,
     "size does not overflow"},
    {"bits that are no whole bytes", one("F4", "[3]", "[0,2]"), 2, "found 12 bits of F4"},
    {"more bytes than the shape asks for", one("F32", "[1]", "[0,8]"), 8,
     "found 8 bytes in data_offsets, expected 4"},
    {"fewer bytes than the shape asks for", one("F32", "[3]", "[0,8]"), 8, "expected 12"},
    {"a scalar without bytes", one("F32", "[]", "[0,0]"), 0, "expected 4 for F32 []"},
    {"a data section that is cut off", one("F32", "[2]", "[0,8]"), 7, "found 7 bytes of data"},
    {"a byte after the data section", one("F32", "[2]", "[0,8]"), 9, "found 9 bytes of data"},
    {"data without a tensor", "{}", 1, "found 1 bytes of data, expected 0"},
    {"an unknown key that nests too deep",
     strCat("{\"a\":{\"x\":", std::string(100, '['), std::string(100, ']'), "}}"), 0,
     "nested deeper than 64"},
    {"a hundred thousand open brackets", std::string(100'000, '['), 0, "found an array"},
};

} // namespace

TEST_CASE("a broken safetensors header is refused:") {
  for (const Row &row : kRows) {
    SUBCASE(row.name) {
      const moert::Status status =
          parseSafetensorsHeader("m.safetensors", row.header, 8 + row.header.size() + row.dataBytes)
              .status();
      checkRefused(status, {"m.safetensors", row.fragment});
    }
  }
}

TEST_CASE("a broken length before the header is refused:") {
  const auto lengthOf = [](const std::string &bytes, uint64_t fileSize) {
    return moec::safetensorsHeaderLength("m.safetensors", bytes, fileSize).status();
  };
  SUBCASE("an empty file") {
    checkRefused(lengthOf("", 0), {"m.safetensors", "found 0 bytes"});
  }
  SUBCASE("seven bytes") {
    checkRefused(lengthOf("1234567", 7), {"m.safetensors", "found 7 bytes"});
  }
  SUBCASE("a length above the limit") {
    checkRefused(lengthOf(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8), uint64_t{1} << 40),
                 {"found a header length of 100000001", "at most 100000000"});
  }
  SUBCASE("the largest possible length") {
    checkRefused(lengthOf(std::string(8, '\xff'), 100), {"18446744073709551615"});
  }
  SUBCASE("a header that is longer than the file") {
    checkRefused(lengthOf(std::string("\x03\0\0\0\0\0\0\0", 8), 10),
                 {"found a header length of 3 bytes in a file of 10"});
  }
}
