#include "tools/moert-serve/HttpServer.h"

#include "runtime/base/Status.h"
#include "tools/moert-serve/ApiReply.h"
#include "tools/moert-serve/Metrics.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

namespace moert::serve {

namespace {

constexpr const char *kJson = "application/json";
/// How often a waiting handler looks whether its client is still there.
constexpr std::chrono::milliseconds kNews{100};
/// Connections that the system may hold until they are accepted; the library's 5 lose bursts.
constexpr int kBacklog = 128;
/// On one connection.
constexpr size_t kMostRequests = 10'000;
constexpr int kTooLarge = 413; // The HTTP status.

/// How long clients have to read the end of an answer when the program ends.
constexpr std::chrono::seconds kLastWrites{5};
constexpr std::chrono::milliseconds kStopPoll{10};

struct Route {
  const char *method, *path;
};
constexpr std::array kRoutes = {
    Route{"POST", "/v1/chat/completions"},
    Route{"POST", "/v1/completions"},
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
    return {kTooLarge, "Payload Too Large"};
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

ApiError errorOf(const Submission &refused) {
  ApiError error;
  error.message = refused.reason;
  switch (refused.refusal.value_or(Refusal::kInvalid)) {
  case Refusal::kInvalid:
    break;
  case Refusal::kTooLong:
    error.code = "context_length_exceeded";
    break;
  case Refusal::kBusy:
    error.status = 429;
    error.type = "requests";
    error.code = "rate_limit_exceeded";
    error.message = "The server is busy: " + refused.reason + ". Please try again later.";
    break;
  case Refusal::kStopping:
    error.status = 503;
    error.type = "server_error";
    error.message = "The server is stopping.";
    break;
  }
  return error;
}

std::string hexOf(uint64_t value) {
  std::string text(16, '0');
  for (char &digit : text) {
    digit = "0123456789abcdef"[value >> 60];
    value <<= 4;
  }
  return text;
}

} // namespace

HttpServer::HttpServer(HttpOptions httpOptions, ServingLoop &servingLoop, ServedModelInfo modelInfo)
    : options(std::move(httpOptions)), loop(servingLoop), info(std::move(modelInfo)),
      created(std::time(nullptr)) {
  new_task_queue = [this] { return new ConnectionThreads(options.connections); };
  set_payload_max_length(options.limits.bodyBytes);
  set_tcp_nodelay(true); // Tokens are small.
  // Only what the Keep-Alive header promises; Connection decides.
  set_keep_alive_timeout(
      std::chrono::duration_cast<std::chrono::seconds>(options.limits.idle).count());
  set_keep_alive_max_count(kMostRequests);
  // Unlike the library's own, which lets another server take half of the connections.
  set_socket_options([](socket_t sock) {
    const int yes = 1;
    ::setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  addRoutes();
}

HttpServer::~HttpServer() {
  stopAccepting();
  join();
}

Result<uint32_t> HttpServer::start() {
  int port = static_cast<int>(options.port);
  errno = 0;
  if (port == 0)
    port = bind_to_any_port(options.host);
  else if (!bind_to_port(options.host, port))
    port = -1;
  if (port < 0)
    return invalidInput("cannot listen at ", options.host, ", port ", options.port,
                        errno != 0 ? strCat(": ", std::generic_category().message(errno)) : "",
                        "; --host and --port give another address");
  ::listen(svr_sock_, kBacklog);
  thread = std::thread([this] { listen_after_bind(); });
  return static_cast<uint32_t>(port);
}

void HttpServer::stopAccepting() {
  isStopping = true; // Connections that wait for a request end, as new ones do.
}

void HttpServer::join() {
  if (!thread.joinable())
    return;
  // The library's stop() cuts streams off; what clients read within a moment is still sent.
  const auto end = std::chrono::steady_clock::now() + kLastWrites;
  while (connected > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kStopPoll);
  while (!is_running())
    std::this_thread::yield(); // The library ignores stop() before it has begun.
  stop();
  thread.join();
}

bool HttpServer::process_and_close_socket(socket_t sock) {
  ++connected;
  serveConnection(sock);
  ::close(sock);
  --connected;
  return true;
}

void HttpServer::refuse(Connection &connection, Connection::Arrival arrival) const {
  const auto [status, reason] = statusOf(arrival);
  const std::string body = bodyOf(errorOf({}, status));
  connection.write(strCat("HTTP/1.1 ", status, " ", reason, "\r\nContent-Type: ", kJson,
                          "\r\nContent-Length: ", body.size(), "\r\nConnection: close\r\n\r\n",
                          body));
}

void HttpServer::serveConnection(socket_t sock) {
  Connection connection(sock, options.limits, isStopping);
  Connection::setCurrent(&connection);
  for (size_t served = 0; served < kMostRequests && !connection.closesAfterRequest(); ++served) {
    const Connection::Arrival arrival = connection.awaitRequest();
    if (arrival == Connection::Arrival::kNone)
      break;
    if (arrival != Connection::Arrival::kRequest) {
      refuse(connection, arrival);
      break;
    }
    bool isClosed = false;
    if (!process_request(connection, isStopping, isClosed, nullptr) || isClosed)
      break;
  }
  connection.finish();
  Connection::setCurrent(nullptr);
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
  if (request.path != "/health" && !hasKey(request))
    return wrongKey(!request.has_header("Authorization"));
  if (isModel && request.path.substr(kModelPrefix.size()) != info.name)
    return unknownModel(request.path.substr(kModelPrefix.size()));
  if (method == "GET")
    return {};
  ApiError error;
  error.status = 415;
  const std::string type = request.get_header_value("Content-Type");
  if (!type.starts_with(kJson)) {
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
  } else if (status >= 500) {
    error.type = "server_error";
    error.message = "The server had an error while processing your request.";
  }
  return error;
}

void HttpServer::sendError(const ApiError &error, Response &response) const {
  response.status = error.status;
  response.set_content(bodyOf(error), kJson);
}

void HttpServer::addRoutes() {
  set_pre_routing_handler([this](const Request &request, Response &response) {
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
  set_exception_handler([this](const Request &request, Response &response, std::exception_ptr) {
    sendError(errorOf(request, 500), response);
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
  Post("/v1/chat/completions",
       [this](const Request &request, Response &response) { answerCall(request, response, true); });
  Post("/v1/completions", [this](const Request &request, Response &response) {
    answerCall(request, response, false);
  });
}

Json HttpServer::modelEntry() const {
  return {{"id", info.name}, {"object", "model"}, {"created", created}, {"owned_by", "moert"}};
}

void HttpServer::answerCall(const Request &request, Response &response, bool isChat) {
  // A connection lets a body in chunks have more bytes: their lengths are among them.
  if (request.body.size() > options.limits.bodyBytes)
    return sendError(errorOf(request, kTooLarge), response);
  ApiCall call;
  std::optional<ApiError> error;
  parser.run([&] {
    Json body;
    error = parseBody(request.body, options.json, body);
    if (!error)
      error = isChat ? readChatCall(body, info, call) : readCompletionCall(body, info, call);
  });
  if (error)
    return sendError(*error, response);
  Submission submission = loop.submit(call.sequences);
  if (submission.refusal)
    return sendError(serve::errorOf(submission), response);
  ReplyHead head = {hexOf(static_cast<uint64_t>(created) << 32 | ++replies), info.name,
                    std::time(nullptr)};
  const bool isStreamed = call.isStreamed;
  auto reply = std::make_unique<ApiReply>(std::move(head), std::move(call),
                                          *info.model->tokenizer(), std::move(submission.answers));
  if (isStreamed)
    streamReply(std::move(reply), response);
  else
    sendWhole(*reply, response);
}

void HttpServer::sendWhole(ApiReply &reply, Response &response) const {
  while (!reply.collect(kNews)) {
    if (reply.error())
      break;
    if (!Connection::current()->isAlive()) {
      response.status = 499; // Nobody reads it.
      Connection::current()->closeAfterRequest();
      return;
    }
  }
  if (reply.error())
    return sendError(*reply.error(), response);
  response.set_content(reply.whole(), kJson);
}

void HttpServer::streamReply(std::unique_ptr<ApiReply> reply, Response &response) const {
  response.set_header("Cache-Control", "no-cache");
  // The library copies the function; the reply ends, and is cancelled, with the last copy.
  std::shared_ptr<ApiReply> shared = std::move(reply);
  response.set_chunked_content_provider(
      "text/event-stream", [shared](size_t, httplib::DataSink &sink) {
        const bool hasEnded = shared->collect(kNews);
        const std::string events = shared->takeEvents();
        if (!events.empty() && !sink.write(events.data(), events.size()))
          return false;
        if (hasEnded || shared->error())
          sink.done();
        return Connection::current()->isAlive();
      });
}

} // namespace moert::serve
