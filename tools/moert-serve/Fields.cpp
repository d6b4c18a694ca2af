#include "tools/moert-serve/Fields.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Status.h"
#include "runtime/base/Utf8.h"

#include <algorithm>

namespace moert::serve {

namespace {

ApiError badJson(const std::string &reason) {
  ApiError error;
  error.message = "We could not parse the JSON body of your request: " + reason +
                  ". The API expects a JSON payload.";
  return error;
}

} // namespace

std::optional<ApiError> parseBody(std::string_view text, const JsonLimits &limits, Json &parsed) {
  if (!isValidUtf8(text))
    return badJson("it is not valid UTF-8");
  if (const std::optional<JsonFault> fault = parseJson(text, limits, parsed)) {
    if (!fault->limit.empty())
      return badJson(fault->limit);
    const std::string_view before = text.substr(0, fault->bytes);
    const auto lines = std::count(before.begin(), before.end(), '\n');
    // Columns are bytes; rfind() returns -1 on the first line.
    return badJson(strCat("it is not valid JSON at line ", lines + 1, ", column ",
                          before.size() - (before.rfind('\n') + 1), ", byte ", fault->bytes, " of ",
                          text.size()));
  }
  if (!parsed.is_object())
    return badJson("it is " + typeOf(parsed) + ", expected an object");
  return {};
}

std::string typeOf(const Json &value) {
  if (value.is_string())
    return "a string";
  if (value.is_boolean())
    return "a boolean";
  if (value.is_number_integer())
    return "an integer";
  if (value.is_number())
    return "a decimal";
  if (value.is_array())
    return value.empty() ? "an empty array" : "an array";
  if (value.is_object())
    return "an object";
  return "null";
}

void Fields::fail(ApiError error) {
  if (!fault)
    fault = std::move(error);
}

const Json *Fields::any(std::string_view name) {
  known.emplace(name);
  const auto found = object.find(std::string(name));
  return fault || found == object.end() || found->is_null() ? nullptr : &*found;
}

void Fields::refuseType(std::string_view name, std::string_view expected, const Json &found) {
  fail(invalidField(strCat("Invalid type for '", nameOf(name), "': expected ", expected,
                           ", but got ", typeOf(found), " instead."),
                    nameOf(name), "invalid_type"));
}

std::optional<uint64_t> Fields::integer(std::string_view name, uint64_t minimum, uint64_t maximum) {
  const Json *found = any(name);
  if (!found)
    return {};
  // 5.0 is an integer in JSON.
  const bool isWhole =
      found->is_number_float() && found->get<double>() >= 0 && found->get<double>() < 0x1p53 &&
      found->get<double>() == static_cast<double>(static_cast<uint64_t>(found->get<double>()));
  if (!found->is_number_integer() && !isWhole) {
    refuseType(name, "an integer", *found);
    return {};
  }
  const bool isNegative = !isWhole && !found->is_number_unsigned() && found->get<int64_t>() < 0;
  const uint64_t value = isNegative ? 0 : found->get<uint64_t>();
  if (isNegative || value < minimum) {
    fail(invalidField(strCat("Invalid '", nameOf(name),
                             "': integer below minimum value. Expected a value >= ", minimum,
                             ", but got ", found->dump(), " instead."),
                      nameOf(name), "integer_below_min_value"));
    return {};
  }
  if (value > maximum) {
    fail(invalidField(strCat("Invalid '", nameOf(name),
                             "': integer above maximum value. Expected a value <= ", maximum,
                             ", but got ", found->dump(), " instead."),
                      nameOf(name), "integer_above_max_value"));
    return {};
  }
  return value;
}

std::optional<double> Fields::number(std::string_view name, double minimum, double maximum) {
  const Json *found = any(name);
  return found ? numberOf(name, *found, minimum, maximum) : std::nullopt;
}

std::optional<double> Fields::numberOf(std::string_view name, const Json &found, double minimum,
                                       double maximum) {
  if (!found.is_number()) {
    refuseType(name, "a decimal", found);
    return {};
  }
  const double value = found.get<double>();
  if (value >= minimum && value <= maximum)
    return value;
  const bool isBelow = value < minimum;
  fail(invalidField(strCat("Invalid '", nameOf(name), "': decimal ",
                           isBelow ? "below minimum" : "above maximum", " value. Expected a value ",
                           isBelow ? ">= " : "<= ", isBelow ? minimum : maximum, ", but got ",
                           found.dump(), " instead."),
                    nameOf(name), isBelow ? "decimal_below_min_value" : "decimal_above_max_value"));
  return {};
}

std::optional<std::string> Fields::text(std::string_view name) {
  const Json *found = any(name);
  if (!found)
    return {};
  if (found->is_string())
    return found->get<std::string>();
  refuseType(name, "a string", *found);
  return {};
}

std::optional<bool> Fields::flag(std::string_view name) {
  const Json *found = any(name);
  if (!found)
    return {};
  if (found->is_boolean())
    return found->get<bool>();
  refuseType(name, "a boolean", *found);
  return {};
}

const Json *Fields::array(std::string_view name) {
  const Json *found = any(name);
  if (!found || found->is_array())
    return found;
  refuseType(name, "an array", *found);
  return nullptr;
}

const Json *Fields::objectAt(std::string_view name) {
  const Json *found = any(name);
  if (!found || found->is_object())
    return found;
  refuseType(name, "an object", *found);
  return nullptr;
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  known.insert(names.begin(), names.end());
}

void Fields::only(std::string_view name, const Json &value, std::string_view reason) {
  const Json *found = any(name);
  if (found && *found != value)
    fail(invalidField(strCat("Unsupported value: '", nameOf(name), "' is ",
                             excerpt(found->dump(), 60), ", expected ", value.dump(), ": ", reason,
                             "."),
                      nameOf(name), "unsupported_value"));
}

void Fields::require(std::string_view name) {
  if (!any(name))
    fail(invalidField(strCat("Missing required parameter: '", nameOf(name), "'."), nameOf(name),
                      "missing_required_parameter"));
}

void Fields::refuseOthers() {
  for (const auto &member : object.items())
    if (!known.contains(member.key()) && !member.value().is_null() && !fault)
      fail(invalidField("Unrecognized request argument supplied: " + excerpt(nameOf(member.key())),
                        excerpt(nameOf(member.key())), "unknown_parameter"));
}

} // namespace moert::serve
