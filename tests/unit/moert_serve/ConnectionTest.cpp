// A connection's bounds, over a pair of sockets.
#include "tools/moert-serve/Connection.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

using namespace moert::serve;
using namespace std::chrono_literals;
using Arrival = Connection::Arrival;

namespace {

struct Pair {
  int ends[2] = {-1, -1};
  ConnectionLimits limits;

  Pair() {
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    limits.idle = limits.header = limits.body = limits.write = 50ms;
    limits.probe = 0ms;
    limits.headerBytes = 1024;
    limits.bodyBytes = 100;
  }
  ~Pair() { closeClient(); } // A connection owns the other end.
  void closeClient() {
    if (ends[1] >= 0)
      ::close(ends[1]);
    ends[1] = -1;
  }
  void send(const std::string &text) const {
    REQUIRE(::send(ends[1], text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }
};

/// All bytes up to an error or the end.
std::string readAll(Connection &connection) {
  std::string all;
  char bytes[64];
  for (ssize_t count = 0; (count = connection.read(bytes, sizeof bytes)) > 0;)
    all.append(bytes, static_cast<size_t>(count));
  return all;
}

/// As the reception waits for it.
Arrival awaitRequest(Connection &connection) {
  connection.expectRequest();
  Arrival arrival = connection.receive();
  while (arrival == Arrival::kPartial && Connection::Clock::now() < connection.deadline())
    arrival = connection.receive();
  return arrival == Arrival::kPartial ? connection.giveUp() : arrival;
}

Arrival arrivalOf(const std::string &header) {
  Pair pair;
  pair.send(header);
  Connection connection(pair.ends[0], pair.limits);
  return awaitRequest(connection);
}

const std::string kGet = "GET / HTTP/1.1\r\n", kPost = "POST / HTTP/1.1\r\n";

} // namespace

TEST_CASE("a header arrives whole, without the lines that the library must not see") {
  Pair pair;
  pair.send(kPost + "Range: bytes=0-1\r\nHost: x\r\naccept-encoding: gzip\r\n"
                    "Ranged: y\r\nContent-Length: 3\r\n\r\nabc");
  Connection connection(pair.ends[0], pair.limits);
  REQUIRE(awaitRequest(connection) == Arrival::kRequest);
  CHECK(readAll(connection) == kPost + "Host: x\r\nRanged: y\r\nContent-Length: 3\r\n\r\nabc");
  CHECK(connection.closesAfterRequest()); // It was read past its end.
}

TEST_CASE("headers that are slow, long or say no length of a body are refused") {
  CHECK(arrivalOf(kGet + "\r\n") == Arrival::kRequest);
  CHECK(arrivalOf(kGet) == Arrival::kTooSlow);
  CHECK(arrivalOf("") == Arrival::kNone);
  CHECK(arrivalOf(kGet + std::string(1100, 'x')) == Arrival::kHeaderTooLarge);
  CHECK(arrivalOf(kGet + "X: " + std::string(1100, 'x') + "\r\n\r\n") == Arrival::kHeaderTooLarge);
  CHECK(arrivalOf(kPost + "Content-Length: 100\r\n\r\n") == Arrival::kRequest);
  CHECK(arrivalOf(kPost + "Content-Length: 101\r\n\r\n") == Arrival::kBodyTooLarge);
  CHECK(arrivalOf(kPost + "CONTENT-LENGTH:99999999999999999999\r\n\r\n") == Arrival::kBodyTooLarge);
  for (const char *length : {"", "-1", "1x", "0x10", "1,1"}) {
    CAPTURE(length);
    CHECK(arrivalOf(kPost + "Content-Length: " + length + "\r\n\r\n") == Arrival::kBadLength);
  }
  CHECK(arrivalOf(kPost + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n") == Arrival::kBadLength);
  CHECK(arrivalOf(kPost + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n") ==
        Arrival::kBadLength);
}

TEST_CASE("a body ends at its bytes and its time, so that a client cannot send for ever") {
  Pair pair;
  pair.send(kPost + "Transfer-Encoding: chunked\r\n\r\n" + std::string(20'000, 'x'));
  Connection connection(pair.ends[0], pair.limits);
  REQUIRE(awaitRequest(connection) == Arrival::kRequest);
  CHECK(readAll(connection).size() < 10'000);
  CHECK(connection.closesAfterRequest());
}

TEST_CASE("requests that were sent together follow each other") {
  Pair pair;
  pair.send(kGet + "\r\n" + kPost + "\r\n");
  Connection connection(pair.ends[0], pair.limits);
  for (const std::string &expected : {kGet, kPost}) {
    REQUIRE(awaitRequest(connection) == Arrival::kRequest);
    std::string got(expected.size() + 2, ' ');
    REQUIRE(connection.read(got.data(), got.size()) == static_cast<ssize_t>(got.size()));
    CHECK(got == expected + "\r\n");
  }
  CHECK(awaitRequest(connection) == Arrival::kNone);
}

TEST_CASE("a client that is gone or does not read is noticed") {
  Pair pair;
  Connection connection(pair.ends[0], pair.limits);
  CHECK(connection.isAlive());
  CHECK(connection.write("x", 1) == 1);
  const std::string large(1 << 20, 'x');
  connection.setImpatient(true);
  CHECK(connection.write(large.data(), large.size()) == -1);
  pair.closeClient();
  CHECK_FALSE(connection.isAlive());
}

TEST_CASE("a client is from this machine if its address is a loopback one") {
  Pair local;
  CHECK_FALSE(Connection(local.ends[0], local.limits).isFromThisMachine()); // It has no address.
  const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(listening, reinterpret_cast<sockaddr *>(&address), size) == 0);
  REQUIRE(::listen(listening, 1) == 0);
  REQUIRE(::getsockname(listening, reinterpret_cast<sockaddr *>(&address), &size) == 0);
  const int client = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(::connect(client, reinterpret_cast<sockaddr *>(&address), size) == 0);
  CHECK(Connection(::accept(listening, nullptr, nullptr), local.limits).isFromThisMachine());
  ::close(client);
  ::close(listening);
}

TEST_CASE("a client that sends no more is alive until it closes, and worth a probe") {
  Pair pair;
  Connection connection(pair.ends[0], pair.limits);
  pair.send(kGet + "\r\n");
  CHECK_FALSE(connection.needsProbe());
  REQUIRE(::shutdown(pair.ends[1], SHUT_WR) == 0);
  REQUIRE(awaitRequest(connection) == Arrival::kRequest);
  CHECK(connection.isHalfClosed());
  CHECK(connection.isAlive());
  CHECK(connection.needsProbe());
  CHECK(connection.write("answer", 6) == 6);
  char answer[7] = {};
  CHECK(::recv(pair.ends[1], answer, 6, 0) == 6);
  CHECK(std::string(answer) == "answer");
}

TEST_CASE("a connection that closes drops what still arrives") {
  Pair pair;
  Connection connection(pair.ends[0], pair.limits);
  connection.beginClose();
  pair.send(kGet + "\r\n");
  CHECK(connection.receive() == Arrival::kPartial);
  pair.closeClient();
  CHECK(connection.receive() == Arrival::kNone);
}
