// Untrusted JSON: its bounds, and the types and ranges of its members.
#include "tools/moert-serve/Fields.h"

#include <doctest/doctest.h>
#include <string>

using namespace moert::serve;

namespace {

std::string repeated(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i)
    all += text;
  return all;
}

/// The message of a refused body; empty if it was taken.
std::string refusalOf(std::string_view text, const JsonLimits &limits = {4, 20}) {
  Json body;
  const auto error = parseBody(text, limits, body);
  return error ? error->message : "";
}

} // namespace

TEST_CASE("bodies within the limits are parsed, others are refused where they exceed them") {
  CHECK(refusalOf(R"({"a": [[[1]]], "b": "[[[[[[[[\"[["})") == "");
  CHECK(refusalOf(R"({"a": [[[[1]]]]})").find("nested more than 4 levels deep") !=
        std::string::npos);
  CHECK(refusalOf("{\"a\": [" + repeated("1,", 17) + "1]}") == "");
  CHECK(refusalOf("{\"a\": [" + repeated("1,", 18) + "1]}").find("it has more than 20 values") !=
        std::string::npos);
  CHECK(refusalOf(repeated("[", 100'000)).find("nested more than 4 levels") != std::string::npos);
  CHECK(refusalOf(repeated("{\"a\":", 100'000)).find("nested") != std::string::npos);
  const JsonLimits fewMembers = {4, 20, 3};
  CHECK(refusalOf(R"([{"a": {"b": 1, "c": 2, "d": ":::"}, "e": 1, "f": 1}])", fewMembers)
            .find("an array, expected an object") != std::string::npos);
  CHECK(refusalOf(R"({"a": {"b": 1, "c": 2}, "d": 3, "e": 4, "f": 5})", fewMembers)
            .find("an object has more than 3 members") != std::string::npos);
  CHECK(refusalOf("").find("not valid JSON") != std::string::npos);
  CHECK(refusalOf("{\"a\": \"\\").find("not valid JSON") != std::string::npos);
  CHECK(refusalOf("{\"a\": 1e999}").find("not valid JSON") != std::string::npos);
  CHECK(
      refusalOf("{\"a\": 1,\n  oops}").find("not valid JSON at line 2, column 3, byte 12 of 16") !=
      std::string::npos);
  CHECK(refusalOf("3").find("an integer, expected an object") != std::string::npos);
  CHECK(refusalOf("{\"a\": \"\xC0\xAF\"}").find("UTF-8") != std::string::npos);
}

TEST_CASE("members have their type and range, null counts as absent") {
  const Json object = Json::parse(
      R"({"whole": 5, "float": 5.0, "half": 5.5, "text": "x", "none": null, "yes": true,
          "huge": 18446744073709551615, "negative": -1, "list": [], "inner": {}})");
  Fields fields(object, "");
  CHECK(fields.integer("whole", 0, 5) == 5u);
  CHECK(fields.integer("float", 0, 5) == 5u);
  CHECK(fields.integer("huge", 0, UINT64_MAX) == UINT64_MAX);
  CHECK_FALSE(fields.integer("none", 0, 5));
  CHECK_FALSE(fields.integer("absent", 0, 5));
  CHECK(fields.number("half", 0, 6) == 5.5);
  CHECK(fields.number("negative", -1, 0) == -1);
  CHECK(fields.text("text") == "x");
  CHECK(fields.flag("yes") == true);
  CHECK(fields.array("list"));
  CHECK(fields.objectAt("inner"));
  fields.refuseOthers();
  CHECK_FALSE(fields.error());
}

TEST_CASE("the first fault names the member, what was found and what was expected") {
  const Json object = Json::parse(R"({"n": "5", "m": -3, "x": 2.5, "other": 1})");
  auto faultOf = [&](auto read) {
    Fields fields(object, "outer.");
    read(fields);
    read(fields); // Later faults change nothing.
    REQUIRE(fields.error());
    return *fields.error();
  };
  ApiError error = faultOf([](Fields &fields) { fields.integer("n", 0, 9); });
  CHECK(error.message ==
        "Invalid type for 'outer.n': expected an integer, but got a string instead.");
  CHECK(error.param == "outer.n");
  CHECK(error.code == "invalid_type");
  error = faultOf([](Fields &fields) { fields.integer("m", 0, 9); });
  CHECK(error.message == "Invalid 'outer.m': integer below minimum value. Expected a value >= 0, "
                         "but got -3 instead.");
  error = faultOf([](Fields &fields) { fields.integer("x", 0, 9); });
  CHECK(error.code == "invalid_type");
  error = faultOf([](Fields &fields) { fields.number("x", 0, 2); });
  CHECK(error.code == "decimal_above_max_value");
  error = faultOf([](Fields &fields) { fields.require("absent"); });
  CHECK(error.message == "Missing required parameter: 'outer.absent'.");
  error = faultOf([](Fields &fields) { fields.only("m", 0, "there are no penalties"); });
  CHECK(error.message == "Unsupported value: 'outer.m' is -3, expected 0: there are no penalties.");
  error = faultOf([](Fields &fields) {
    fields.ignore({"n", "m", "x"});
    fields.refuseOthers();
  });
  CHECK(error.message == "Unrecognized request argument supplied: outer.other");
  CHECK(error.code == "unknown_parameter");
}

TEST_CASE("an error is an object with OpenAI's members, whatever bytes its message has") {
  ApiError error = invalidField("a \"b\" \xFF", "p", "c");
  CHECK(bodyOf(error) == "{\"error\":{\"message\":\"a \\\"b\\\" \xEF\xBF\xBD\",\"type\":"
                         "\"invalid_request_error\",\"param\":\"p\",\"code\":\"c\"}}");
  CHECK(bodyOf(wrongKey(true)).find("\"code\":null") != std::string::npos);
}
