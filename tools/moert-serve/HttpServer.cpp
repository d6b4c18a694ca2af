#include "tools/moert-serve/HttpServer.h"

#include "runtime/base/Status.h"
#include "tools/moert-serve/ApiReply.h"
#include "tools/moert-serve/Metrics.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <new>
#include <string_view>
#include <thread>
#include <unistd.h>

namespace moert::serve {

namespace {

constexpr const char *kAllowOrigin = "Access-Control-Allow-Origin";
/// On one connection.
constexpr size_t kMostRequests = 10'000;

/// How long clients have to read the end of an answer when the program ends.
constexpr std::chrono::seconds kLastWrites{5};
constexpr std::chrono::milliseconds kStopPoll{10};

struct Route {
  const char *method, *path;
};
constexpr std::array kRoutes = {
    Route{"POST", "/v1/chat/completions"},
    Route{"POST", "/v1/completions"},
    Route{"POST", "/v1/responses"},
    Route{"GET", "/v1/models"},
    Route{"GET", "/health"},
    Route{"GET", "/metrics"},
};
constexpr std::string_view kModelPrefix = "/v1/models/";

bool isPath(const Route &route, const std::string &path) {
  return path == route.path;
}

/// The HTTP status of a request that does not reach the library.
std::pair<int, const char *> statusOf(Connection::Arrival arrival) {
  switch (arrival) {
  case Connection::Arrival::kTooSlow:
    return {408, "Request Timeout"};
  case Connection::Arrival::kHeaderTooLarge:
    return {431, "Request Header Fields Too Large"};
  case Connection::Arrival::kBodyTooLarge:
    return {HttpServer::kTooLarge, "Payload Too Large"};
  case Connection::Arrival::kBusy:
    return {503, "Service Unavailable"};
  default:
    return {400, "Bad Request"};
  }
}

/// Takes as long for a wrong key as for the right one.
bool isSameKey(std::string_view given, std::string_view key) {
  unsigned difference = given.size() != key.size();
  for (size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(key[key.empty() ? 0 : i % key.size()]);
  return difference == 0;
}

/// prefix: of small letters, '/' and so on.
bool hasPrefixOfAnyCase(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), [](char small, char c) {
           return small == (c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c);
         });
}

} // namespace

HttpServer::HttpServer(HttpOptions httpOptions, ServingLoop &servingLoop, Ledger &requestLedger,
                       ServedModelInfo modelInfo)
    : options(std::move(httpOptions)), loop(servingLoop), ledger(requestLedger),
      info(std::move(modelInfo)), created(std::time(nullptr)),
      reception({options.idleConnections()}, options.limits,
                [this](std::unique_ptr<Connection> connection, Connection::Arrival arrival) {
                  dispatch(std::move(connection), arrival);
                }),
      callThreads(options.connections, options.connections), otherThreads(1, kMostOthers) {
  if (options.corsOrigin)
    set_default_headers({{kAllowOrigin, *options.corsOrigin}, {"Vary", "Origin"}});
  set_payload_max_length(options.limits.bodyBytes);
  // Only what the Keep-Alive header promises; Connection decides.
  set_keep_alive_timeout(
      std::chrono::duration_cast<std::chrono::seconds>(options.limits.idle).count());
  set_keep_alive_max_count(kMostRequests);
  addRoutes();
}

HttpServer::~HttpServer() {
  stopAccepting();
  join();
}

Status HttpServer::start(Listener listener) {
  if (callThreads.size() == 0 || otherThreads.size() == 0)
    return Status(StatusCode::kFailed, "the system allows no threads to serve connections");
  MOERT_ASSIGN_OR_RETURN(const int listening, listener.listen());
  svr_sock_ = listening;
  return reception.start(listening, isStopping);
}

void HttpServer::stopAccepting() {
  isStopping = true; // Connections that wait for a request end, as new ones do.
}

void HttpServer::join() {
  // Closing the listener cuts streams off; what clients read within a moment is still sent.
  const auto end = std::chrono::steady_clock::now() + kLastWrites;
  while (serving > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kStopPoll);
  reception.stop();
  if (const socket_t listener = svr_sock_.exchange(INVALID_SOCKET); listener != INVALID_SOCKET)
    ::close(listener); // The library ends its streams then.
  callThreads.shutdown();
  otherThreads.shutdown();
}

void HttpServer::refuse(Connection &connection, Connection::Arrival arrival) const {
  const auto [status, reason] = statusOf(arrival);
  const std::string body = bodyOf(errorOf({}, status));
  connection.write(
      strCat("HTTP/1.1 ", status, " ", reason, "\r\nContent-Type: ", kJson, "\r\nContent-Length: ",
             body.size(), arrival == Connection::Arrival::kBusy ? "\r\nRetry-After: 1" : "",
             options.corsOrigin ? strCat("\r\n", kAllowOrigin, ": ", *options.corsOrigin) : "",
             "\r\nConnection: close\r\n\r\n", body));
}

void HttpServer::dispatch(std::unique_ptr<Connection> connection, Connection::Arrival arrival) {
  ++serving;
  auto enqueue = [&](ConnectionThreads &threads, Connection::Arrival what) {
    Connection *const served = connection.get(); // Functions are copied, so they cannot own it.
    try {
      if (!threads.enqueue(
              [this, served, what] { serveRequest(std::unique_ptr<Connection>(served), what); }))
        return false;
    } catch (const std::bad_alloc &) {
      return false; // As where too many wait.
    }
    (void)connection.release();
    return true;
  };
  if (arrival == Connection::Arrival::kRequest && connection->isCall()) {
    if (enqueue(callThreads, arrival))
      return;
    arrival = Connection::Arrival::kBusy;
  }
  connection->setImpatient(true);
  if (!enqueue(otherThreads, arrival))
    --serving; // The connection is closed.
}

bool HttpServer::answer(Connection &connection, Connection::Arrival arrival) {
  if (arrival != Connection::Arrival::kRequest) {
    refuse(connection, arrival);
    return false;
  }
  const bool isLast = isStopping || connection.requests() >= kMostRequests;
  bool isClosed = false;
  return process_request(connection, isLast, isClosed, nullptr) && !isClosed && !isLast;
}

void HttpServer::serveRequest(std::unique_ptr<Connection> connection, Connection::Arrival arrival) {
  Connection::setCurrent(connection.get());
  bool isKept = false;
  try {
    isKept = answer(*connection, arrival);
  } catch (...) { // std::bad_alloc, outside of the handlers or in their error handlers.
    try {
      if (!connection->hasSent())
        refuse(*connection, Connection::Arrival::kBusy);
    } catch (...) { // Without memory for that either the connection ends without an answer.
    }
  }
  Connection::setCurrent(nullptr);
  if (!isKept || connection->closesAfterRequest())
    connection->beginClose();
  try {
    reception.wait(std::move(connection));
  } catch (...) { // The connection is closed.
  }
  --serving;
}

bool HttpServer::hasKey(const Request &request) const {
  if (!options.apiKey)
    return true;
  constexpr std::string_view kBearer = "Bearer ";
  const std::string given = request.get_header_value("Authorization");
  return given.starts_with(kBearer) &&
         isSameKey(std::string_view(given).substr(kBearer.size()), *options.apiKey);
}

std::optional<ApiError> HttpServer::checkRequest(const Request &request) const {
  const bool isModel = request.path.starts_with(kModelPrefix);
  const auto route = std::find_if(kRoutes.begin(), kRoutes.end(),
                                  [&](const Route &known) { return isPath(known, request.path); });
  if (route == kRoutes.end() && !isModel)
    return unknownUrl(request.method, request.path);
  const std::string_view method = isModel ? "GET" : route->method;
  if (request.method != method && !(method == "GET" && request.method == "HEAD"))
    return wrongMethod(request.method, request.path);
  // A proxy on this machine says so.
  const bool isForwarded = request.has_header("Forwarded") || request.has_header("X-Forwarded-For");
  const bool isOpen = request.path == "/health" || (request.path == "/metrics" && !isForwarded &&
                                                    Connection::current()->isFromThisMachine());
  if (!isOpen && !hasKey(request))
    return wrongKey(!request.has_header("Authorization"));
  if (isModel && request.path.substr(kModelPrefix.size()) != info.name)
    return unknownModel(request.path.substr(kModelPrefix.size()));
  if (method == "GET")
    return {};
  ApiError error;
  error.status = 415;
  const std::string type = request.get_header_value("Content-Type");
  if (!hasPrefixOfAnyCase(type, kJson)) {
    error.message = "Unsupported content type: '" + type +
                    "'. This API method only accepts 'application/json' requests.";
    return error;
  }
  if (request.has_header("Content-Encoding")) {
    error.message = "Unsupported content encoding: '" +
                    request.get_header_value("Content-Encoding") +
                    "'. This server only accepts requests that are not compressed.";
    return error;
  }
  return {};
}

ApiError HttpServer::errorOf(const Request &request, int status) const {
  if (status == 404)
    return unknownUrl(request.method, request.path);
  ApiError error;
  error.status = status;
  error.message = "The request could not be read as HTTP.";
  if (status == 408)
    error.message = "The request's header took too long.";
  if (status == 431)
    error.message = strCat("The request's header is too large, expected at most ",
                           options.limits.headerBytes, " bytes.");
  if (status == kTooLarge) {
    error.message =
        strCat("The request is too large, expected at most ", options.limits.bodyBytes, " bytes.");
    error.code = "request_too_large";
  } else if (status == 503) {
    error.type = "server_error";
    error.message = "The server is busy or has no memory for your request. Please try again later.";
  } else if (status >= 500) {
    error.type = "server_error";
    error.message = "The server had an error while processing your request.";
  }
  return error;
}

void HttpServer::sendError(const ApiError &error, Response &response) const {
  response.status = error.status;
  if (error.status == 429 || error.status == 503)
    response.set_header("Retry-After", "1");
  response.set_content(bodyOf(error), kJson);
}

void HttpServer::addRoutes() {
  set_pre_routing_handler([this](const Request &request, Response &response) {
    if (request.method == "OPTIONS" && options.corsOrigin) {
      // A browser asks before the request itself, and without its key.
      response.set_header("Access-Control-Allow-Methods", "GET, POST");
      response.set_header("Access-Control-Allow-Headers", "*, Authorization");
      response.set_header("Access-Control-Max-Age", "86400");
      response.status = 204;
      return HandlerResponse::Handled;
    }
    const std::optional<ApiError> error = checkRequest(request);
    if (!error && request.path.starts_with(kModelPrefix)) {
      // Not by a route with a pattern: std::regex takes stack for each character of a path.
      response.set_content(textOf(modelEntry()), kJson);
      return HandlerResponse::Handled;
    }
    if (!error)
      return HandlerResponse::Unhandled;
    sendError(*error, response);
    Connection::current()->closeAfterRequest();
    response.set_header("Connection", "close");
    return HandlerResponse::Handled;
  });
  set_error_handler([this](const Request &request, Response &response) {
    if (!response.body.empty())
      return;
    const bool isTooLarge = Connection::current()->hadLargeBody();
    sendError(errorOf(request, isTooLarge ? kTooLarge : response.status), response);
    Connection::current()->closeAfterRequest();
  });
  set_exception_handler(
      [this](const Request &request, Response &response, const std::exception_ptr &thrown) {
        int status = 500;
        try {
          std::rethrow_exception(thrown);
        } catch (const std::bad_alloc &) {
          status = 503;
        } catch (...) {
        }
        sendError(errorOf(request, status), response);
        Connection::current()->closeAfterRequest(); // Its body may not have been read.
      });
  Get("/health", [](const Request &, Response &response) {
    response.set_content(textOf({{"status", "ok"}}), kJson);
  });
  Get("/metrics", [this](const Request &, Response &response) {
    response.set_content(metricsOf(loop.numbers(), loop.refusals(), loop.limits()),
                         "text/plain; version=0.0.4");
  });
  Get("/v1/models", [this](const Request &, Response &response) {
    response.set_content(textOf({{"object", "list"}, {"data", Json::array({modelEntry()})}}),
                         kJson);
  });
  const std::initializer_list<std::pair<const char *, ReadCall>> calls = {
      {"/v1/chat/completions", [](Json &&body, const ServedModelInfo &model,
                                  ApiCall &call) { return readChatCall(body, model, call); }},
      {"/v1/completions", [](Json &&body, const ServedModelInfo &model,
                             ApiCall &call) { return readCompletionCall(body, model, call); }},
      {"/v1/responses", [](Json &&body, const ServedModelInfo &model, ApiCall &call) {
         return readResponseCall(std::move(body), model, call);
       }}};
  for (const auto &[path, read] : calls)
    Post(path, [this, read = read](const Request &request, Response &response,
                                   const httplib::ContentReader &reader) {
      answerCall(request, response, reader, read);
    });
}

Json HttpServer::modelEntry() const {
  return {{"id", info.name}, {"object", "model"}, {"created", created}, {"owned_by", "moert"}};
}

} // namespace moert::serve
