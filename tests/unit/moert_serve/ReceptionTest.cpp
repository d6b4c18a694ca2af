// Waiting for requests: what takes a thread, what is closed, and what errors of accepting change.
#include "tools/moert-serve/Reception.h"

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace moert::serve;
using namespace std::chrono_literals;
using Arrival = Connection::Arrival;

namespace {

const std::string kGet = "GET / HTTP/1.1\r\n\r\n";

/// A reception whose connections are pairs of sockets. A pipe is readable while there are some to
/// accept.
struct Fixture {
  ConnectionLimits limits;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<int> toAccept; // Sockets, or negative errors.
  std::vector<Arrival> served;
  std::vector<std::unique_ptr<Connection>> taken;
  std::vector<int> clients;
  std::atomic<uint32_t> accepts = 0;
  std::atomic<bool> stop = false;
  int ready[2] = {-1, -1};
  std::unique_ptr<Reception> reception;

  explicit Fixture(uint32_t connections) {
    limits.idle = limits.header = 10s;
    REQUIRE(::pipe2(ready, O_NONBLOCK) == 0);
    auto serve = [this](std::unique_ptr<Connection> connection, Arrival arrival) {
      const std::lock_guard<std::mutex> lock(mutex);
      served.push_back(arrival);
      taken.push_back(std::move(connection));
      changed.notify_all();
    };
    auto accept = [this](int) {
      ++accepts;
      const std::lock_guard<std::mutex> lock(mutex);
      if (toAccept.empty()) {
        for (char bytes[64]; ::read(ready[0], bytes, sizeof bytes) > 0;) {
        }
        errno = EAGAIN;
        return -1;
      }
      const int next = toAccept.front();
      toAccept.pop_front();
      errno = next < 0 ? -next : 0;
      return next < 0 ? -1 : next;
    };
    Reception::Options options;
    options.connections = connections;
    reception = std::make_unique<Reception>(options, limits, serve, accept);
    REQUIRE(reception->start(ready[0], stop).isOk());
  }
  ~Fixture() {
    reception->stop();
    for (int client : clients)
      ::close(client);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  void announce(std::vector<int> next) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      toAccept.insert(toAccept.end(), next.begin(), next.end());
    }
    REQUIRE(::write(ready[1], "x", 1) == 1); // Read once all are accepted.
  }
  /// The client's end of a new connection, for announce(): the server's.
  std::pair<int, int> pair() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    clients.push_back(ends[0]);
    return {ends[0], ends[1]};
  }
  bool waitForServed(size_t count) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, 20s, [&] { return served.size() >= count; });
  }
  std::vector<Arrival> arrivals() {
    const std::lock_guard<std::mutex> lock(mutex);
    return served;
  }
  std::unique_ptr<Connection> take(size_t index) {
    const std::lock_guard<std::mutex> lock(mutex);
    return std::move(taken[index]);
  }
};

void send(int client, const std::string &text) {
  REQUIRE(::send(client, text.data(), text.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(text.size()));
}

} // namespace

TEST_CASE("errors of accepting pass, and connections after them are served") {
  Fixture fixture(8);
  const auto [client, server] = fixture.pair();
  send(client, kGet);
  fixture.announce({-EMFILE, -ECONNABORTED, -ENFILE, -ENOMEM, -ENOBUFS, -EPROTO, -EINTR, server});
  REQUIRE(fixture.waitForServed(1));
  CHECK(fixture.arrivals() == std::vector{Arrival::kRequest});
}

TEST_CASE("accepting without files does not spin") {
  Fixture fixture(8);
  fixture.announce(std::vector<int>(1000, -EMFILE));
  const uint32_t before = fixture.accepts;
  std::this_thread::sleep_for(200ms);
  CHECK(fixture.accepts - before < 20);
}

TEST_CASE("only whole headers are served, however many connections are idle or slow") {
  Fixture fixture(64);
  for (int i = 0; i < 60; ++i) {
    const auto [client, server] = fixture.pair();
    if (i % 2 == 0)
      send(client, "GET / HT");
    fixture.announce({server});
  }
  const auto [client, server] = fixture.pair();
  send(client, kGet);
  fixture.announce({server});
  REQUIRE(fixture.waitForServed(1));
  CHECK(fixture.arrivals().size() == 1);
  // The rest of a header that was slow.
  send(fixture.clients[0], "TP/1.1\r\n\r\n");
  REQUIRE(fixture.waitForServed(2));
  CHECK(fixture.arrivals()[1] == Arrival::kRequest);
}

TEST_CASE("beyond the bound the connection that is idle for longest is closed") {
  Fixture fixture(4);
  std::vector<int> servers;
  for (int i = 0; i < 5; ++i)
    servers.push_back(fixture.pair().second);
  fixture.announce(servers);
  char byte = 0;
  CHECK(::recv(fixture.clients[0], &byte, 1, 0) == 0);
  for (int i = 1; i < 5; ++i)
    send(fixture.clients[static_cast<size_t>(i)], kGet);
  CHECK(fixture.waitForServed(4));
}

TEST_CASE("requests that have arrived are served, however many more there are than may wait") {
  Fixture fixture(2);
  std::vector<int> servers;
  for (int i = 0; i < 10; ++i) {
    const auto [client, server] = fixture.pair();
    send(client, kGet);
    servers.push_back(server);
  }
  fixture.announce(servers);
  REQUIRE(fixture.waitForServed(10));
  CHECK(fixture.arrivals() == std::vector(10, Arrival::kRequest));
}

TEST_CASE("a connection that was served waits for its next request, and a stop ends idle ones") {
  Fixture fixture(4);
  const auto [client, server] = fixture.pair();
  send(client, kGet);
  fixture.announce({server});
  REQUIRE(fixture.waitForServed(1));
  std::string read(kGet.size(), ' ');
  std::unique_ptr<Connection> connection = fixture.take(0);
  CHECK(connection->read(read.data(), read.size()) == static_cast<ssize_t>(kGet.size()));
  fixture.reception->wait(std::move(connection));
  send(client, kGet);
  REQUIRE(fixture.waitForServed(2));
  CHECK(fixture.take(1)->requests() == 2);
  const auto [idle, other] = fixture.pair();
  fixture.announce({other});
  fixture.stop = true;
  char byte = 0;
  CHECK(::recv(idle, &byte, 1, 0) == 0);
}
