// One client's connection as cpp-httplib reads and writes it, with the bounds that the library
// lacks: a request's header has to arrive within a time and a number of bytes, its body too, and a
// client that stops reading is given up.
//
// The header is read whole before the library sees it. Lines that the library would answer badly
// are left out: `Range`, which it applies to any content, and `Accept-Encoding`, since compressing
// gains nothing on the way to a client nearby.
#pragma once

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace moert::serve {

struct ConnectionLimits {
  std::chrono::milliseconds idle{30'000};   // Between requests of a connection.
  std::chrono::milliseconds header{10'000}; // From a header's first byte to its last.
  std::chrono::milliseconds body{60'000};   // From a header's last byte to the body's last.
  std::chrono::milliseconds write{30'000};  // Until the client reads something.
  size_t headerBytes = size_t(32) << 10;
  size_t bodyBytes = size_t(1) << 20;
};

/// Used by its connection's thread; the socket stays the caller's.
class Connection : public httplib::Stream {
public:
  Connection(socket_t connected, const ConnectionLimits &connectionLimits,
             const std::atomic<bool> &stopFlag)
      : file(connected), limits(connectionLimits), stop(stopFlag) {}

  enum class Arrival {
    kRequest,
    kNone,
    kTooSlow,
    kHeaderTooLarge,
    kBodyTooLarge,
    kBadLength, // No length of a body, or two.
  };

  /// Waits for the next request's header. kNone: the client is done, or the program stops.
  Arrival awaitRequest();

  /// Whether the client still waits for an answer.
  bool isAlive() const;

  /// The library must not look for another request after this one: its body was not read.
  void closeAfterRequest() { closes = true; }
  bool closesAfterRequest() const { return closes; }
  /// Whether a body without a stated length was longer than the limit, and so was not read to its
  /// end.
  bool hadLargeBody() const { return isBodyTooLarge; }

  /// Lets the client read the last response: closing a socket with unread bytes would reset it.
  void finish();

  /// The connection that this thread serves. The library's handlers do not receive it.
  static Connection *current();
  static void setCurrent(Connection *connection);

  // httplib::Stream
  using httplib::Stream::write;
  bool is_readable() const override { return true; } // read() waits.
  bool is_writable() const override;
  ssize_t read(char *data, size_t size) override;
  ssize_t write(const char *data, size_t size) override;
  void get_remote_ip_and_port(std::string &ip, int &port) const override;
  void get_local_ip_and_port(std::string &ip, int &port) const override;
  socket_t socket() const override { return file; }

private:
  using Clock = std::chrono::steady_clock;

  enum class Wait { kReady, kTimeout, kStopped };
  Wait waitReadable(Clock::time_point end, bool endsOnStop) const;
  /// Appends what has arrived; false at the end of the stream.
  bool receiveSome();
  /// Leaves out lines of the buffered header and checks the body's length.
  Arrival filterHeader(size_t headerEnd);

  const socket_t file;
  const ConnectionLimits &limits;
  const std::atomic<bool> &stop;
  std::string buffer; // Received and not read.
  size_t taken = 0;   // Bytes of the buffer that were read.
  size_t bodyLeft = 0;
  Clock::time_point bodyEnd;
  bool closes = false, isBodyTooLarge = false;
};

} // namespace moert::serve
