// Any allocation may fail while a request is received and answered: the client gets an error or the
// answer, and the next request is answered. Requests with JSON are left out: the library that has
// it allocates where a value is destroyed, which nothing can take back.
#include "tools/moert-serve/HttpServer.h"
#include "tests/unit/serving/ServingFixture.h"
#include "tests/unit/support/FailAllocations.h"
#include "tests/unit/tokenizer/TestTokenizers.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace moert;
using namespace moert::serve;
using namespace moert::test;

namespace {

/// A visible character for each token.
std::vector<std::byte> letters() {
  nlohmann::json json = smallTokenizer();
  nlohmann::json vocabulary = nlohmann::json::object();
  for (uint32_t token = 0; token < kVocabulary; ++token)
    vocabulary[token < 94 ? std::string(1, static_cast<char>('!' + token)) : strCat("<", token)] =
        token;
  json["model"]["vocab"] = vocabulary;
  json["model"]["merges"] = nlohmann::json::array();
  return loadJson(json.dump()).table;
}

SyntheticOptions modelWithText() {
  SyntheticOptions options;
  options.tokenizer = letters();
  return options;
}

struct RunningServer {
  ServedModel model = ServedModel(servingOptions(3), modelWithText());
  TokenTexts texts = TokenTexts(*model.loaded.model->tokenizer());
  ChatFormat chat = ChatFormat(std::nullopt);
  ServingLoop loop = ServingLoop(*model.loaded.engine, {64, 2, 3, 0, 192});
  Ledger memory{uint64_t(8) << 20};
  HttpServer server;
  std::atomic<bool> stop = false;
  uint32_t port = 0;
  std::thread thread;

  explicit RunningServer(std::optional<std::string> key = {})
      : server(options(std::move(key)), loop, memory, info()) {
    Result<Listener> listener = Listener::bind("127.0.0.1", 0);
    REQUIRE_MESSAGE(listener.isOk(), listener.status().message());
    port = listener->port();
    REQUIRE(server.start(std::move(listener).value()).isOk());
    thread = std::thread([this] { loop.run(stop, 10s); });
  }
  ~RunningServer() {
    stop = true;
    thread.join();
    server.stopAccepting();
    server.join();
  }

  static HttpOptions options(std::optional<std::string> key) {
    HttpOptions options;
    options.connections = 2;
    options.apiKey = std::move(key);
    return options;
  }
  ServedModelInfo info() {
    ServedModelInfo info;
    info.model = model.loaded.model.get();
    info.name = "m";
    info.contextTokens = 64;
    info.tokenTexts = info.callTexts = &texts;
    info.chatFormat = &chat;
    info.drawSeed = [] { return uint64_t(1); };
    return info;
  }
};

/// Sends a request and receives all that comes back. Allocates nothing.
struct Exchange {
  char received[65536] = {};
  size_t size = 0;

  void run(uint32_t port, const std::string &request) {
    size = 0;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int client = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(client, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0 &&
        ::send(client, request.data(), request.size(), MSG_NOSIGNAL) > 0)
      for (ssize_t count = 1; count > 0 && size < sizeof received;) {
        count = ::recv(client, received + size, sizeof received - size, 0);
        size += count > 0 ? static_cast<size_t>(count) : 0;
      }
    ::close(client);
  }
  std::string_view text() const { return {received, size}; }
  bool hasStatus(int status) const { return text().starts_with(strCat("HTTP/1.1 ", status, " ")); }
};

} // namespace

TEST_CASE("counters need no key from this machine, unless a proxy on it forwards the request") {
  RunningServer running("key");
  Exchange exchange;
  const auto statusIs = [&](int status, const std::string &header) {
    exchange.run(running.port, "GET /metrics HTTP/1.1\r\n" + header + "Connection: close\r\n\r\n");
    return exchange.hasStatus(status);
  };
  CHECK(statusIs(200, ""));
  CHECK(statusIs(401, "X-Forwarded-For: 192.0.2.1\r\n"));
  CHECK(statusIs(401, "Forwarded: for=192.0.2.1\r\n"));
  CHECK(statusIs(200, "Forwarded: for=192.0.2.1\r\nAuthorization: Bearer key\r\n"));
}

TEST_CASE("whichever allocation of a request fails, its client gets an error or the whole answer") {
  const std::string request = "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n";
  RunningServer running;
  Exchange exchange;
  exchange.run(running.port, request);
  REQUIRE_MESSAGE(exchange.hasStatus(200), exchange.text());
  const size_t expected = exchange.size;
  uint64_t refused = 0, closed = 0;
  bool hasFailed = true;
  for (uint64_t successes = 0; hasFailed; ++successes) {
    CAPTURE(successes);
    {
      const FailingAllocation failing(successes);
      exchange.run(running.port, request);
      hasFailed = failing.failed() != AllocationKind::kNoAllocation;
    }
    if (exchange.size == 0)
      ++closed; // Before anything was received.
    else if (exchange.hasStatus(503))
      ++refused;
    else
      CHECK_MESSAGE((exchange.hasStatus(200) && exchange.size == expected), exchange.text());
  }
  CHECK(refused > 10);
  CHECK(closed < 10);
  exchange.run(running.port, request);
  CHECK(exchange.size == expected);
}

TEST_CASE("a call that others leave no memory for is told so and when to ask again") {
  RunningServer running;
  const std::string body =
      R"({"model":"m","prompt":"!","max_tokens":1})" + std::string(100'000, ' ');
  const std::string request = strCat("POST /v1/completions HTTP/1.1\r\nConnection: close\r\n"
                                     "Content-Type: application/json\r\nContent-Length: ",
                                     body.size(), "\r\n\r\n", body);
  Exchange exchange;
  {
    const Reservation others = running.memory.reserve("others", uint64_t(8) << 20).value();
    exchange.run(running.port, request);
    CHECK_MESSAGE(exchange.hasStatus(503), exchange.text());
    CHECK(exchange.text().find("\r\nRetry-After: 1\r\n") != std::string_view::npos);
    CHECK(exchange.text().find("no memory for the request: a request: ") != std::string_view::npos);
    CHECK(exchange.text().find("0 bytes (0 B) of 8388608 bytes (8.00 MiB) left") !=
          std::string_view::npos);
  }
  exchange.run(running.port, request);
  CHECK_MESSAGE(exchange.hasStatus(200), exchange.text());
  CHECK(running.memory.used() == 0);
}
