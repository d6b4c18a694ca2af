#include "tools/moert-serve/ApiError.h"

#include "runtime/base/Excerpt.h"

namespace moert::serve {

std::string textOf(const Json &body) {
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string bodyOf(const ApiError &error) {
  auto orNull = [](const std::optional<std::string> &text) { return text ? Json(*text) : Json(); };
  return textOf({{"error",
                  {{"message", error.message},
                   {"type", error.type},
                   {"param", orNull(error.param)},
                   {"code", orNull(error.code)}}}});
}

ApiError invalidField(std::string message, std::string param, std::string code) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  error.code = std::move(code);
  return error;
}

ApiError unknownUrl(const std::string &method, const std::string &path) {
  ApiError error;
  error.status = 404;
  error.message = "Unknown request URL: " + method + " " + excerpt(path) +
                  ". Please check the URL for typos; this server has /v1/chat/completions, "
                  "/v1/responses, /v1/completions, /v1/models, /health and /metrics.";
  error.code = "unknown_url";
  return error;
}

ApiError wrongMethod(const std::string &method, const std::string &path) {
  ApiError error;
  error.status = 405;
  error.message = "Not allowed to " + method + " on " + excerpt(path) +
                  ". (HINT: Perhaps you meant to use a different HTTP method?)";
  error.code = "method_not_supported";
  return error;
}

ApiError unknownModel(const std::string &name) {
  ApiError error;
  error.status = 404;
  error.message =
      "The model `" + excerpt(name) + "` does not exist; /v1/models lists the one that does.";
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

ApiError wrongKey(bool isMissing) {
  ApiError error;
  error.status = 401;
  error.message = isMissing
                      ? "You didn't provide an API key. You need to provide your API key in an "
                        "Authorization header using Bearer auth (i.e. Authorization: Bearer "
                        "YOUR_KEY)."
                      : "Incorrect API key provided.";
  if (!isMissing)
    error.code = "invalid_api_key";
  return error;
}

} // namespace moert::serve
