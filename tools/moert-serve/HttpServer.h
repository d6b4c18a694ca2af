// The HTTP side: addresses, keys and bodies of requests; answers whole or as server-sent events.
#pragma once

#include "runtime/serving/ServingLoop.h"
#include "tools/moert-serve/ApiCall.h"
#include "tools/moert-serve/Connection.h"
#include "tools/moert-serve/ConnectionThreads.h"
#include "tools/moert-serve/ParsingThread.h"

#include <httplib.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace moert::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint32_t port = 8080; // 0: one that is free.
  std::optional<std::string> apiKey = {};
  uint32_t connections = 64; // Threads that serve them.
  ConnectionLimits limits = {};
  JsonLimits json = {};
};

/// The loop must outlive it. Handlers run in the connections' threads.
class HttpServer : private httplib::Server {
public:
  HttpServer(HttpOptions httpOptions, ServingLoop &servingLoop, ServedModelInfo modelInfo);
  ~HttpServer() override;

  /// Binds the address and serves it in a thread of its own. Returns the port.
  Result<uint32_t> start();
  /// Connections that wait for a request end, as new ones do. From any thread.
  void stopAccepting();
  /// Returns once all connections have ended; call after the serving loop has stopped.
  void join();

private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  bool process_and_close_socket(socket_t sock) override;
  void serveConnection(socket_t sock);
  /// Answers a request that does not reach the library.
  void refuse(Connection &connection, Connection::Arrival arrival) const;

  void addRoutes();
  /// Refuses what needs no body.
  std::optional<ApiError> checkRequest(const Request &request) const;
  bool hasKey(const Request &request) const;
  /// What is wrong with a request that the library answered with a bare status.
  ApiError errorOf(const Request &request, int status) const;
  void answerCall(const Request &request, Response &response, bool isChat);
  void streamReply(std::unique_ptr<class ApiReply> reply, Response &response) const;
  void sendWhole(ApiReply &reply, Response &response) const;
  Json modelEntry() const;
  void sendError(const ApiError &error, Response &response) const;

  const HttpOptions options;
  ServingLoop &loop;
  const ServedModelInfo info;
  const int64_t created; // Unix time in seconds.
  std::atomic<bool> isStopping = false;
  std::atomic<uint64_t> replies = 0;
  std::atomic<uint32_t> connected = 0;
  ParsingThread parser;
  std::thread thread;
};

} // namespace moert::serve
