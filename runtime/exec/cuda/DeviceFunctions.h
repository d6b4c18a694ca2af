// The functions of a device: its memory, its streams and the launches of KernelList.h.
// CudaDevice.cu has those of GPUs, tests have an emulated device.
#pragma once

#include <cstdint>

namespace moert::device {

/// What is submitted to a stream is done in its order.
constexpr uint32_t kComputeStream = 0, kCopyStream = 1, kStreams = 2;
constexpr uint32_t kEvents = 4;

/// Each returns null, or why it failed: a text that is valid until the next call. An error of work
/// that was submitted earlier may be returned by any later call. For one thread at a time.
struct DeviceFunctions {
  void *state; // Their first argument.
  char name[256];
  uint64_t freeBytes; // When it was opened.
  const char *(*allocate)(void *state, uint64_t bytes, void **memory);
  const char *(*release)(void *state, void *memory);
  /// Copies from or to pinned memory of the host take no time of the caller. 0 bytes: unpins it.
  const char *(*pin)(void *state, const void *memory, uint64_t bytes);
  /// Between host and device or within the device.
  const char *(*copy)(void *state, uint32_t stream, void *to, const void *from, uint64_t bytes);
  /// Copies the arguments.
  const char *(*launch)(void *state, uint32_t stream, uint32_t kernel, const void *arguments,
                        uint32_t bytes, uint32_t blocks);
  /// The event is what was submitted to the stream so far.
  const char *(*record)(void *state, uint32_t stream, uint32_t event);
  /// What is submitted to the stream from now on is done after the event.
  const char *(*wait)(void *state, uint32_t stream, uint32_t event);
  /// Blocks until the event is done.
  const char *(*finish)(void *state, uint32_t event);
};

} // namespace moert::device
