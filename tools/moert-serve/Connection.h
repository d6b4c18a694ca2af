// One client's connection as cpp-httplib reads and writes it, with the bounds that the library
// lacks: a request's header has to arrive within a time and a number of bytes, its body too, and a
// client that stops reading is given up.
//
// The header is read whole, without waiting, before the library sees it: Reception waits for many
// connections at a time, and only what has arrived takes a thread.
//
// A client that shuts down its side for writing waits for its answer all the same. One that has
// closed the connection looks alike until something is sent to it: see needsProbe().
//
// Lines that the library would answer badly are left out: `Range`, which it applies to any content,
// and `Accept-Encoding`, since compressing gains nothing on the way to a client nearby.
#pragma once

#include <httplib.h>

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
  std::chrono::milliseconds probe{1'000};   // Between probes of a client that may be gone.
  size_t headerBytes = size_t(32) << 10;
  size_t bodyBytes = size_t(1) << 20;
};

/// Owns the socket. Used by one thread at a time: the reception's, then one that serves a request.
class Connection : public httplib::Stream {
public:
  using Clock = std::chrono::steady_clock;

  Connection(socket_t connected, const ConnectionLimits &connectionLimits)
      : file(connected), limits(connectionLimits) {
    expectRequest();
  }
  ~Connection() override;

  enum class Arrival {
    kRequest,
    kPartial, // More has to come.
    kNone,    // The client is done.
    kBusy,    // As kRequest, but nothing can serve it now.
    kTooSlow,
    kHeaderTooLarge,
    kBodyTooLarge,
    kBadLength, // No length of a body, or two.
  };

  /// Begins to wait for the next request.
  void expectRequest();
  /// Takes what has arrived of the next request's header. Waits for nothing.
  Arrival receive();
  /// What kPartial becomes once nothing more arrives until deadline().
  Arrival giveUp() const {
    return isClosing || buffer.empty() ? Arrival::kNone : Arrival::kTooSlow;
  }
  Clock::time_point deadline() const { return waitsUntil; }
  /// Bytes of a partial header; 0: the connection is idle.
  size_t partialBytes() const { return buffer.size(); }
  /// Whether the request that has arrived generates text, which takes long.
  bool isCall() const { return buffer.starts_with("POST "); }
  size_t requests() const { return requestCount; }
  /// Whether a part of the answer to this request was sent.
  bool hasSent() const { return sends; }

  /// Whether the client has a loopback address.
  bool isFromThisMachine() const;
  /// Whether the client is known to be gone. Half-closed connections are not.
  bool isAlive() const;
  /// Whether the client sends no more: it has shut down its side, or is gone.
  bool isHalfClosed() const;
  /// Whether to send it something that changes nothing: it sends no more, and nothing was sent for
  /// limits.probe. If it is gone, its system says so then.
  bool needsProbe() const;
  /// Writes only what needs no waiting.
  void setImpatient(bool isSo) { isImpatient = isSo; }

  /// The library must not look for another request after this one: its body was not read.
  void closeAfterRequest() { closes = true; }
  bool closesAfterRequest() const { return closes; }
  /// Whether a body without a stated length was longer than the limit, and so was not read to its
  /// end.
  bool hadLargeBody() const { return isBodyTooLarge; }

  /// Lets the client read the last response: closing a socket with unread bytes would reset it.
  /// receive() then drops what arrives, and returns kNone at its end.
  void beginClose();

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
  bool isReadableBefore(Clock::time_point end) const;
  enum class Received { kSome, kNothing, kEnd };
  /// Appends what has arrived.
  Received receiveSome();
  Arrival examine();
  /// Leaves out lines of the buffered header and checks the body's length.
  Arrival filterHeader(size_t headerEnd);

  const socket_t file;
  const ConnectionLimits &limits;
  std::string buffer; // Received and not read.
  size_t taken = 0;   // Bytes of the buffer that were read.
  size_t bodyLeft = 0;
  Clock::time_point bodyEnd;
  Clock::time_point waitsUntil, lastSent;
  size_t requestCount = 0;
  bool closes = false, sends = false, isBodyTooLarge = false, isClosing = false,
       isImpatient = false;
};

} // namespace moert::serve
