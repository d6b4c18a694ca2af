// The address that a server listens at, taken before its model is loaded.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>

namespace moert::serve {

/// Owns the socket until it is released.
class Listener {
public:
  /// Binds the address; port 0 takes a free one. Connections are refused until listen().
  static Result<Listener> bind(const std::string &host, uint32_t port);
  ~Listener();
  Listener(Listener &&other) noexcept;
  Listener &operator=(Listener &&) = delete;

  uint32_t port() const;
  /// Takes connections from now on. The socket does not block and is the caller's.
  Result<int> listen();

private:
  Listener(int boundSocket, std::string addressText)
      : fd(boundSocket), address(std::move(addressText)) {}

  int fd;
  std::string address;
};

} // namespace moert::serve
