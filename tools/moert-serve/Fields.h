// Reads the members of a JSON object that a client sent: their types and ranges are checked, and
// the first fault is kept as OpenAI's API words it.
#pragma once

#include "tools/moert-serve/ApiError.h"
#include "tools/moert-serve/ParseJson.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace moert::serve {

/// Parses a body that has to be a JSON object in UTF-8.
std::optional<ApiError> parseBody(std::string_view text, const JsonLimits &limits, Json &parsed);

/// Used by one thread; the object must outlive it. A member that is null counts as absent. After a
/// fault every member counts as absent.
class Fields {
public:
  /// path: what comes before a member's name in messages: "messages[0]."
  Fields(const Json &checkedObject, std::string namePath)
      : object(checkedObject), path(std::move(namePath)) {}

  std::optional<uint64_t> integer(std::string_view name, uint64_t minimum, uint64_t maximum);
  std::optional<double> number(std::string_view name, double minimum, double maximum);
  /// The same for a member that was found.
  std::optional<double> numberOf(std::string_view name, const Json &found, double minimum,
                                 double maximum);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  const Json *array(std::string_view name);
  const Json *objectAt(std::string_view name);
  const Json *any(std::string_view name);

  /// Members that change nothing here.
  void ignore(std::initializer_list<std::string_view> names);
  /// A member that is supported with one value only.
  void only(std::string_view name, const Json &value, std::string_view reason);
  void require(std::string_view name);
  /// Refuses members that none of the calls before named, unless they are null.
  void refuseOthers();

  void fail(ApiError error);
  /// The full name of a member.
  std::string nameOf(std::string_view name) const { return path + std::string(name); }
  const std::optional<ApiError> &error() const { return fault; }

private:
  void refuseType(std::string_view name, std::string_view expected, const Json &found);

  const Json &object;
  const std::string path;
  std::set<std::string, std::less<>> known;
  std::optional<ApiError> fault;
};

/// "a string", "an integer", for messages.
std::string typeOf(const Json &value);

} // namespace moert::serve
