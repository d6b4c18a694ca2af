// The HTTP side: addresses, keys and bodies of requests; answers whole or as server-sent events.
#pragma once

#include "runtime/memory/Ledger.h"
#include "runtime/serving/ServingLoop.h"
#include "tools/moert-serve/ApiCall.h"
#include "tools/moert-serve/Connection.h"
#include "tools/moert-serve/ConnectionThreads.h"
#include "tools/moert-serve/Listener.h"
#include "tools/moert-serve/ParsingThread.h"
#include "tools/moert-serve/Reception.h"

#include <httplib.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace moert::serve {

struct HttpOptions {
  std::optional<std::string> apiKey = {};
  /// The origin of web pages that may use the server, or "*"; absent: none.
  std::optional<std::string> corsOrigin = {};
  uint32_t connections = 64; // Threads that serve calls; so many more calls wait.
  ConnectionLimits limits = {};
  JsonLimits json = {};

  /// Connections that wait for a request.
  uint32_t idleConnections() const { return 2 * connections; }
};

/// The loop and the ledger, of the memory that requests and answers share, must outlive it.
/// Handlers run in the connections' threads: calls, which take long, in as many as the options say,
/// and all else in one more, so that no number of calls keeps the server from saying that it is
/// well.
class HttpServer : private httplib::Server {
public:
  /// What a request has without reserving any of the ledger's memory.
  static constexpr uint64_t kOwnBytes = 64 * 1024;
  /// Requests other than calls that wait for their thread. Beyond them connections are closed: the
  /// budget counts what each one that waits has received.
  static constexpr uint32_t kMostOthers = 64;
  static constexpr int kTooLarge = 413; // The HTTP status.
  static constexpr const char *kJson = "application/json";

  HttpServer(HttpOptions httpOptions, ServingLoop &servingLoop, Ledger &requestLedger,
             ServedModelInfo modelInfo);
  ~HttpServer() override;

  /// Serves the address in a thread of its own.
  Status start(Listener listener);
  /// Connections that wait for a request end, as new ones do. From any thread.
  void stopAccepting();
  /// Returns once all connections have ended; call after the serving loop has stopped.
  void join();

private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  /// Passes a request on to the threads that serve such.
  void dispatch(std::unique_ptr<Connection> connection, Connection::Arrival arrival);
  void serveRequest(std::unique_ptr<Connection> connection, Connection::Arrival arrival);
  /// Returns whether the connection may bring another request. Throws where there is no memory.
  bool answer(Connection &connection, Connection::Arrival arrival);
  /// Answers a request that does not reach the library.
  void refuse(Connection &connection, Connection::Arrival arrival) const;

  void addRoutes();
  /// Refuses what needs no body.
  std::optional<ApiError> checkRequest(const Request &request) const;
  bool hasKey(const Request &request) const;
  /// What is wrong with a request that the library answered with a bare status.
  ApiError errorOf(const Request &request, int status) const;
  /// Makes a request's reservation so large, less kOwnBytes; else the refusal: 503, or 400 where it
  /// would never fit.
  std::optional<ApiError> reserve(Reservation &reservation, uint64_t bytes) const;
  /// Reads a body into memory of the reservation.
  std::optional<ApiError> readBody(const httplib::ContentReader &reader, Reservation &reservation,
                                   std::string &body) const;
  /// Reads a body.
  using ReadCall = std::optional<ApiError> (*)(Json &&body, const ServedModelInfo &model,
                                               ApiCall &call);
  void answerCall(const Request &request, Response &response, const httplib::ContentReader &reader,
                  ReadCall read);
  void streamReply(std::unique_ptr<class ApiReply> reply, Reservation reservation,
                   Response &response);
  /// bytes: held by the reply so far.
  void sendWhole(ApiReply &reply, Reservation &reservation, uint64_t bytes, const Request &request,
                 Response &response);
  Json modelEntry() const;
  void sendError(const ApiError &error, Response &response) const;

  const HttpOptions options;
  ServingLoop &loop;
  Ledger &ledger;
  const ServedModelInfo info;
  const int64_t created; // Unix time in seconds.
  std::atomic<bool> isStopping = false;
  std::atomic<uint64_t> replies = 0;
  std::atomic<uint32_t> serving = 0; // Requests.
  ParsingThread parser;
  std::mutex rendering; // One answer at a time becomes JSON, which takes many times its memory.
  Reception reception;
  ConnectionThreads callThreads, otherThreads;
};

} // namespace moert::serve
