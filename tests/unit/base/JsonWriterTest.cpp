#include "runtime/base/JsonWriter.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <vector>

using namespace moert;

TEST_CASE("objects and arrays nest, with commas between values and nowhere else") {
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  json.key("a").beginArray();
  json.number(uint32_t(1));
  json.number(int32_t(-2));
  json.beginObject();
  json.endObject();
  json.endArray();
  json.key("b").boolean(true);
  json.key("c").string("x");
  json.endObject();
  CHECK(text == R"({"a":[1,-2,{}],"b":true,"c":"x"})");
}

TEST_CASE("quoted text reads back unchanged") {
  std::string text;
  JsonWriter(text).string("\"\\\n\t\x01 caf\xC3\xA9");
  CHECK(text == "\"\\\"\\\\\\n\\u0009\\u0001 caf\xC3\xA9\"");
}

TEST_CASE("invalid UTF-8, as in a file name, is written as replacement characters") {
  std::string text;
  JsonWriter(text).string("mod\xE8le \xC3");
  CHECK(text == "\"mod\xEF\xBF\xBDle \xEF\xBF\xBD\"");
}

TEST_CASE("a range of numbers is an array, also an empty range or one of bytes") {
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  json.key("some").numbers(std::array{0.5, 2.0});
  json.key("none").numbers(std::vector<int32_t>());
  json.key("bytes").numbers(std::vector<uint8_t>{0, 65, 255});
  json.endObject();
  CHECK(text == R"({"some":[0.5,2],"none":[],"bytes":[0,65,255]})");
}

TEST_CASE("numbers are the shortest that read back, and what JSON lacks becomes null") {
  std::string text;
  JsonWriter json(text);
  json.beginArray();
  json.number(0.1);
  json.number(1e300);
  json.number(std::numeric_limits<uint64_t>::max());
  json.number(std::numeric_limits<double>::infinity());
  json.number(std::numeric_limits<double>::quiet_NaN());
  json.endArray();
  CHECK(text == "[0.1,1e+300,18446744073709551615,null,null]");
}
