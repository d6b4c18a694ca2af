// Accepts connections and waits for the requests of all of them in one thread, so that idle and
// slow clients take no thread of those that serve. A request goes on once its header is whole.
//
// Connections that wait are bounded: beyond the bound, or where the system has no more files, the
// one that has been idle for longest is closed for a new one. A new connection whose request is
// here already does not wait. Accepting never ends by an error.
#pragma once

#include "runtime/base/WorkerThread.h"
#include "tools/moert-serve/Connection.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <span>
#include <vector>

namespace moert::serve {

/// The functions are called by the reception's thread and must not throw. What the references
/// refer to must outlive it.
class Reception {
public:
  struct Options {
    uint32_t connections = 128;     // That wait.
    uint64_t headerBytes = 1 << 20; // All partial headers together.
  };
  /// Returns a socket, or -1 and errno.
  using Accept = std::function<socket_t(socket_t listening)>;
  /// Takes a connection whose request has arrived, or failed to: anything but kPartial and kNone.
  using Serve = std::function<void(std::unique_ptr<Connection>, Connection::Arrival)>;

  Reception(Options waitingOptions, const ConnectionLimits &connectionLimits, Serve serveRequest,
            Accept acceptFunction = acceptSocket);
  ~Reception();

  /// The socket listens and does not block. stopFlag: once set, idle connections end, as new ones
  /// do. Call once.
  Status start(socket_t listening, const std::atomic<bool> &stopFlag);
  void stop();
  /// Waits for the next request of a connection, or for the end of one that closes. Any thread.
  void wait(std::unique_ptr<Connection> connection);

  static socket_t acceptSocket(socket_t listening);

private:
  void run();
  /// Until something arrives or is due. polled: the listener and the pipe first, then those that
  /// wait, in their order.
  void waitForEvents(std::vector<pollfd> &polled) const;
  void takeEvents(std::span<const pollfd> polled);
  void acceptAll();
  /// Takes what has arrived, and passes the connection on or closes it. Returns whether it still
  /// waits.
  bool advance(std::unique_ptr<Connection> &connection);
  /// Closes the connection that has been idle for longest; where none is idle, the one with the
  /// largest header. Returns false if none waits.
  bool closeOne();
  bool closeLargest();
  void wake() const;

  const Options options;
  const ConnectionLimits &limits;
  const Serve serve;
  const Accept accept;
  socket_t listener = -1;
  int wakeUp[2] = {-1, -1}; // A pipe.
  const std::atomic<bool> *stopping = nullptr;
  std::atomic<bool> isEnding = false;
  Connection::Clock::time_point pausedUntil;        // Accepting, after the system refused.
  std::vector<std::unique_ptr<Connection>> waiting; // The reception's thread's.
  std::mutex mutex;
  std::vector<std::unique_ptr<Connection>> returned; // Guarded by the mutex.
  std::optional<WorkerThread> thread;                // Between start() and stop().
};

} // namespace moert::serve
