// Errors as OpenAI's API words and types them, so that its clients raise the exception that fits.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace moert::serve {

using Json = nlohmann::ordered_json;

struct ApiError {
  int status = 400; // Of HTTP.
  std::string message;
  std::string type = "invalid_request_error";
  std::optional<std::string> param = {}; // The field of the request.
  std::optional<std::string> code = {};
};

/// {"error": {...}}
std::string bodyOf(const ApiError &error);

/// A body as text; broken UTF-8 becomes U+FFFD.
std::string textOf(const Json &body);

/// A field that cannot work: 400.
ApiError invalidField(std::string message, std::string param, std::string code = "invalid_value");

/// 404, 405: nothing is at this address.
ApiError unknownUrl(const std::string &method, const std::string &path);
ApiError wrongMethod(const std::string &method, const std::string &path);
ApiError unknownModel(const std::string &name);
ApiError wrongKey(bool isMissing);

} // namespace moert::serve
