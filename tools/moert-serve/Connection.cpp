#include "tools/moert-serve/Connection.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <string_view>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

namespace moert::serve {

namespace {

constexpr std::chrono::milliseconds kFinish{1000};
constexpr size_t kReceiveBytes = 4096;
/// A client that reads more slowly than this, over all of an answer, is given up.
constexpr size_t kLeastBytesPerSecond = 4096;
constexpr std::string_view kHeaderEnd = "\r\n\r\n", kLength = "content-length";

// cpp-httplib calls a handler with a request and a response, and nothing that leads to the
// connection: a thread serves one connection at a time.
thread_local Connection *currentConnection = nullptr;

std::chrono::milliseconds until(std::chrono::steady_clock::time_point end) {
  return std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
}

bool isNamed(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         ::strncasecmp(line.data(), name.data(), name.size()) == 0;
}

/// The number that a header line's value is; one that is too large for 64 bits is the largest.
std::optional<uint64_t> numberOf(std::string_view value) {
  const size_t begin = value.find_first_not_of(" \t"), end = value.find_last_not_of(" \t\r\n");
  if (begin == std::string_view::npos)
    return {};
  value = value.substr(begin, end + 1 - begin);
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (rest != value.data() + value.size() || error == std::errc::invalid_argument)
    return {};
  return error == std::errc::result_out_of_range ? UINT64_MAX : number;
}

} // namespace

Connection *Connection::current() {
  return currentConnection;
}
void Connection::setCurrent(Connection *connection) {
  currentConnection = connection;
}

Connection::~Connection() {
  ::close(file);
}

bool Connection::isReadableBefore(Clock::time_point end) const {
  while (true) {
    pollfd waiting = {file, POLLIN, 0};
    const auto left = std::max<int64_t>(until(end).count(), 0);
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, INT_MAX)));
    if (ready >= 0 || errno != EINTR)
      return ready > 0;
  }
}

Connection::Received Connection::receiveSome() {
  char bytes[kReceiveBytes];
  ssize_t count = 0;
  do
    count = ::recv(file, bytes, sizeof bytes, MSG_DONTWAIT);
  while (count < 0 && errno == EINTR);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return Received::kNothing;
  if (count <= 0)
    return Received::kEnd;
  buffer.append(bytes, static_cast<size_t>(count));
  return Received::kSome;
}

Connection::Arrival Connection::filterHeader(size_t headerEnd) {
  std::string kept;
  bool isFirst = true, hasLength = false;
  for (size_t begin = 0; begin < headerEnd;) {
    const size_t end = buffer.find("\r\n", begin) + 2;
    const std::string_view line = std::string_view(buffer).substr(begin, end - begin);
    begin = end;
    const bool isLength = !isFirst && isNamed(line, kLength);
    if (isLength || (!isFirst && isNamed(line, "transfer-encoding"))) {
      if (hasLength)
        return Arrival::kBadLength;
      hasLength = true;
    }
    if (isLength) {
      const std::optional<uint64_t> length = numberOf(line.substr(kLength.size() + 1));
      if (!length)
        return Arrival::kBadLength;
      if (*length > limits.bodyBytes)
        return Arrival::kBodyTooLarge;
    }
    if (isFirst || !(isNamed(line, "range") || isNamed(line, "accept-encoding")))
      kept += line;
    isFirst = false;
  }
  buffer.replace(0, headerEnd, kept);
  return Arrival::kRequest;
}

void Connection::expectRequest() {
  buffer.erase(0, taken);
  buffer.shrink_to_fit();
  taken = 0;
  isImpatient = sends = false;
  lastSent = Clock::now();
  waitsUntil = lastSent + (isClosing ? kFinish : buffer.empty() ? limits.idle : limits.header);
}

Connection::Arrival Connection::receive() {
  if (!isClosing && !buffer.empty())
    if (const Arrival arrival = examine(); arrival != Arrival::kPartial)
      return arrival;
  const bool wasIdle = buffer.empty();
  const Received received = receiveSome();
  if (received == Received::kEnd)
    return Arrival::kNone;
  if (isClosing)
    buffer.clear();
  if (isClosing || received == Received::kNothing)
    return Arrival::kPartial;
  if (wasIdle)
    waitsUntil = Clock::now() + limits.header;
  return examine();
}

Connection::Arrival Connection::examine() {
  const size_t found = buffer.find(kHeaderEnd);
  if (found == std::string::npos ? buffer.size() > limits.headerBytes : found > limits.headerBytes)
    return Arrival::kHeaderTooLarge;
  if (found == std::string::npos)
    return Arrival::kPartial;
  if (const Arrival checked = filterHeader(found + 2); checked != Arrival::kRequest)
    return checked;
  // A chunked body has some bytes more than its content.
  bodyLeft = buffer.size() + limits.bodyBytes + limits.bodyBytes / 2 + kReceiveBytes;
  bodyEnd = Clock::now() + limits.body;
  ++requestCount;
  return Arrival::kRequest;
}

bool Connection::isAlive() const {
  pollfd state = {file, 0, 0};
  return ::poll(&state, 1, 0) <= 0 || (state.revents & (POLLERR | POLLHUP | POLLNVAL)) == 0;
}

bool Connection::isFromThisMachine() const {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getpeername(file, reinterpret_cast<sockaddr *>(&address), &size) != 0)
    return false;
  if (address.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in &>(address).sin_addr.s_addr) >> 24 == 127;
  const in6_addr &ip = reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr;
  return address.ss_family == AF_INET6 &&
         (IN6_IS_ADDR_LOOPBACK(&ip) || (IN6_IS_ADDR_V4MAPPED(&ip) && ip.s6_addr[12] == 127));
}

bool Connection::isHalfClosed() const {
  char byte = 0;
  return ::recv(file, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

bool Connection::needsProbe() const {
  return Clock::now() >= lastSent + limits.probe && isHalfClosed();
}

void Connection::beginClose() {
  ::shutdown(file, SHUT_WR);
  isClosing = true;
}

bool Connection::is_writable() const {
  return isAlive();
}

ssize_t Connection::read(char *data, size_t size) {
  if (taken == buffer.size()) {
    buffer.clear();
    taken = 0;
    isBodyTooLarge = bodyLeft == 0;
    Received received = isBodyTooLarge ? Received::kEnd : Received::kNothing;
    while (received == Received::kNothing && isReadableBefore(bodyEnd))
      received = receiveSome();
    if (received != Received::kSome) {
      closes = true;
      return -1;
    }
  }
  const size_t count = std::min({size, buffer.size() - taken, bodyLeft});
  std::copy_n(buffer.data() + taken, count, data);
  taken += count;
  bodyLeft -= count;
  if (count == 0)
    closes = isBodyTooLarge = true;
  return count == 0 ? -1 : static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char *data, size_t size) {
  size_t written = 0;
  sends = true;
  lastSent = Clock::now();
  const Clock::time_point last =
      lastSent + limits.write + std::chrono::seconds(size / kLeastBytesPerSecond);
  while (written < size) {
    pollfd waiting = {file, POLLOUT, 0};
    const int64_t left = std::min(limits.write.count(), until(last).count());
    const int ready =
        ::poll(&waiting, 1, isImpatient ? 0 : static_cast<int>(std::max<int64_t>(left, 0)));
    if (ready < 0 && errno == EINTR)
      continue;
    const ssize_t count =
        ready > 0 ? ::send(file, data + written, size - written, MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
    if (count < 0 && ready > 0 && (errno == EAGAIN || errno == EINTR))
      continue;
    if (count <= 0) {
      closes = true;
      return -1;
    }
    written += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(written);
}

// Nothing here depends on addresses.
void Connection::get_remote_ip_and_port(std::string &ip, int &port) const {
  ip.clear();
  port = 0;
}
void Connection::get_local_ip_and_port(std::string &ip, int &port) const {
  ip.clear();
  port = 0;
}

} // namespace moert::serve
