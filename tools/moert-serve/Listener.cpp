#include "tools/moert-serve/Listener.h"

#include <arpa/inet.h>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace moert::serve {

/// Connections that the kernel holds until they are accepted.
constexpr int kBacklog = 128;

static Status refusal(const std::string &address, const std::string &reason) {
  return invalidInput("cannot listen at ", address, ": ", reason,
                      "; --host and --port give another address");
}

/// A bound socket, or -1 and errno.
static int boundSocket(const addrinfo &address) {
  const int fd = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -1;
  const int yes = 1, no = 0;
  // SO_REUSEPORT would let another server take half of the connections.
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (address.ai_family == AF_INET6)
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (::bind(fd, address.ai_addr, address.ai_addrlen) == 0)
    return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

Result<Listener> Listener::bind(const std::string &host, uint32_t port) {
  const std::string address = strCat(host, ", port ", port);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo *found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
    return refusal(address, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  errno = EADDRNOTAVAIL;
  for (const addrinfo *each = found; each; each = each->ai_next)
    if (const int fd = boundSocket(*each); fd >= 0)
      return Listener(fd, address);
  return refusal(address, std::generic_category().message(errno));
}

Listener::~Listener() {
  if (fd >= 0)
    ::close(fd);
}

Listener::Listener(Listener &&other) noexcept
    : fd(std::exchange(other.fd, -1)), address(std::move(other.address)) {}

uint32_t Listener::port() const {
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr *>(&bound), &size) != 0)
    return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 &>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in &>(bound).sin_port);
}

Result<int> Listener::listen() {
  if (::listen(fd, kBacklog) != 0) // Two servers may have bound the address; one listens.
    return refusal(address, std::generic_category().message(errno));
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  return std::exchange(fd, -1);
}

} // namespace moert::serve
