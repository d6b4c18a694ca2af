#include "tools/moert-serve/Reception.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <new>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace moert::serve {

namespace {

/// How often the stop flag is looked at, and how long accepting pauses after a refusal.
constexpr std::chrono::milliseconds kPoll{100}, kPause{50};
/// Connections accepted before those that wait are looked at again.
constexpr int kMostAccepted = 64;
/// The kernel's memory of one connection, for each direction; the kernel doubles it.
constexpr int kSocketBytes = 64 * 1024;

bool isLackOf(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

} // namespace

socket_t Reception::acceptSocket(socket_t listening) {
  const socket_t accepted = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
  if (accepted >= 0) {
    const int yes = 1; // Tokens are small.
    ::setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::setsockopt(accepted, SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof kSocketBytes);
    ::setsockopt(accepted, SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes);
  }
  return accepted;
}

Reception::Reception(Options waitingOptions, const ConnectionLimits &connectionLimits,
                     Serve serveRequest, Accept acceptFunction)
    : options(waitingOptions), limits(connectionLimits), serve(std::move(serveRequest)),
      accept(std::move(acceptFunction)) {}

Status Reception::start(socket_t listening, const std::atomic<bool> &stopFlag) {
  listener = listening;
  stopping = &stopFlag;
  // Without the pipe, a connection that returns is seen after kPoll.
  if (::pipe2(wakeUp, O_CLOEXEC | O_NONBLOCK) != 0)
    wakeUp[0] = wakeUp[1] = -1;
  auto work = [](void *self) -> void * {
    static_cast<Reception *>(self)->run();
    return nullptr;
  };
  MOERT_ASSIGN_OR_RETURN(WorkerThread started, WorkerThread::start(work, this));
  thread.emplace(std::move(started));
  return {};
}

void Reception::stop() {
  isEnding = true;
  wake();
  thread.reset(); // Joins.
}

Reception::~Reception() {
  stop();
  for (int end : wakeUp)
    if (end >= 0)
      ::close(end);
}

void Reception::wake() const {
  const char byte = 0;
  // A full pipe wakes it already.
  if (wakeUp[1] >= 0 && ::write(wakeUp[1], &byte, 1) < 0)
    return;
}

void Reception::wait(std::unique_ptr<Connection> connection) {
  connection->expectRequest();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    returned.push_back(std::move(connection));
  }
  wake();
}

bool Reception::advance(std::unique_ptr<Connection> &connection) {
  Connection::Arrival arrival = connection->receive();
  const bool isIdle = connection->partialBytes() == 0;
  if (arrival == Connection::Arrival::kPartial) {
    if (Connection::Clock::now() < connection->deadline() && !(isIdle && *stopping))
      return true;
    arrival = isIdle ? Connection::Arrival::kNone : connection->giveUp();
  }
  if (arrival == Connection::Arrival::kNone)
    connection.reset();
  else
    serve(std::move(connection), arrival);
  return false;
}

bool Reception::closeOne() {
  auto longest = waiting.end();
  for (auto one = waiting.begin(); one != waiting.end(); ++one)
    if ((*one)->partialBytes() == 0 &&
        (longest == waiting.end() || (*one)->deadline() < (*longest)->deadline()))
      longest = one;
  if (longest == waiting.end())
    return closeLargest();
  waiting.erase(longest);
  return true;
}

bool Reception::closeLargest() {
  const auto found =
      std::max_element(waiting.begin(), waiting.end(), [](const auto &a, const auto &b) {
        return a->partialBytes() < b->partialBytes();
      });
  if (found == waiting.end())
    return false;
  waiting.erase(found);
  return true;
}

/// Owns an accepted socket.
static std::unique_ptr<Connection> connectionOf(socket_t accepted, const ConnectionLimits &limits) {
  try {
    return std::make_unique<Connection>(accepted, limits);
  } catch (const std::bad_alloc &) {
    ::close(accepted);
    throw;
  }
}

void Reception::acceptAll() {
  for (int i = 0; i < kMostAccepted; ++i) {
    const socket_t accepted = accept(listener);
    if (accepted >= 0) {
      std::unique_ptr<Connection> connection = connectionOf(accepted, limits);
      // Its request may be here already: only one that has to wait takes another one's place.
      if (!advance(connection))
        continue;
      if (waiting.size() >= options.connections)
        closeOne();
      waiting.push_back(std::move(connection));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      return;
    if (errno == EINTR || errno == ECONNABORTED || (isLackOf(errno) && closeOne()))
      continue;
    // Anything else may pass too: files are closed, networks come up.
    pausedUntil = Connection::Clock::now() + kPause;
    return;
  }
}

void Reception::waitForEvents(std::vector<pollfd> &polled) const {
  const auto now = Connection::Clock::now();
  polled.assign({{now < pausedUntil ? -1 : listener, POLLIN, 0}, {wakeUp[0], POLLIN, 0}});
  auto next = now + (now < pausedUntil ? kPause : kPoll);
  for (const auto &connection : waiting) {
    polled.push_back({connection->socket(), POLLIN, 0});
    next = std::min(next, connection->deadline());
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
  ::poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(left, 0)));
}

void Reception::takeEvents(std::span<const pollfd> polled) {
  const auto now = Connection::Clock::now();
  const bool stops = *stopping;
  uint64_t headerBytes = 0;
  for (size_t i = 0; i < waiting.size(); ++i) {
    const bool isDue = polled[i + 2].revents != 0 || waiting[i]->deadline() <= now || stops;
    if (!isDue || advance(waiting[i]))
      headerBytes += waiting[i]->partialBytes();
  }
  std::erase(waiting, nullptr);
  if (headerBytes > options.headerBytes)
    closeLargest(); // Others follow: poll() returns at once while they send.
  if (polled[1].revents != 0)
    for (char bytes[64]; ::read(wakeUp[0], bytes, sizeof bytes) > 0;) {
    }
  std::vector<std::unique_ptr<Connection>> back;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    back.swap(returned);
  }
  for (auto &connection : back)
    if (advance(connection))
      waiting.push_back(std::move(connection));
  if (polled[0].revents != 0)
    acceptAll();
}

void Reception::run() {
  std::vector<pollfd> polled;
  while (!isEnding) {
    try {
      waitForEvents(polled);
      takeEvents(polled);
    } catch (const std::bad_alloc &) {
      std::erase(waiting, nullptr);
      closeOne();
    }
  }
}

} // namespace moert::serve
