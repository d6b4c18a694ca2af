// A device of host threads: streams are threads, copies take time, and its memory can be accessed
// only while one of its streams has work. So a copy that is too late, an event that is missing and
// an access of the host show.
#pragma once

#include "runtime/engine/device/FunctionBackend.h"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace moert::test {

/// Outlives the engines that use it. Kernels must not have addresses of the host's pinned memory.
class EmulatedDevice {
public:
  /// bytesPerMicrosecond: of each stream's copies.
  EmulatedDevice(uint64_t memoryBytes, uint64_t bytesPerMicrosecond);
  ~EmulatedDevice();
  EmulatedDevice(const EmulatedDevice &) = delete;
  EmulatedDevice &operator=(const EmulatedDevice &) = delete;

  DeviceBackend &backend() { return *own; }
  /// The first byte of its memory.
  const std::byte *memory() const { return base; }
  /// What is allocated now.
  uint64_t allocatedBytes() const;
  uint64_t copiedToDevice() const { return bytesCopied; }
  /// The n-th launch from now on fails.
  void failLaunch(uint64_t n) { launchesLeft = n; }

private:
  using Work = std::function<void()>;
  struct Stream {
    std::deque<Work> queue;
    std::thread thread;
  };

  static EmulatedDevice &of(void *state) { return *static_cast<EmulatedDevice *>(state); }
  const char *allocate(uint64_t bytes, void **memory);
  const char *launch(uint32_t stream, uint32_t kernel, const void *arguments, uint32_t bytes);
  void submit(uint32_t stream, Work work);
  void execute(Stream &stream);
  void access(bool begins);
  bool isOwn(const void *address) const;
  bool isPinned(uint64_t address) const;

  std::byte *base;
  const uint64_t size, rate;
  std::unique_ptr<FunctionBackend> own;
  std::map<uint64_t, uint64_t> allocated; // By offset.
  std::map<uint64_t, uint64_t> pinned;    // By address.
  std::array<Stream, device::kStreams> streams;
  std::array<uint64_t, device::kEvents> recorded = {}, done = {};
  std::mutex mutex; // Guards the queues and the events.
  std::condition_variable changed;
  std::mutex accessMutex;
  uint32_t accesses = 0;
  uint64_t bytesCopied = 0, launchesLeft = UINT64_MAX;
  bool isEnding = false;
};

} // namespace moert::test
