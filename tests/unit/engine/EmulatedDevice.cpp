#include "tests/unit/engine/EmulatedDevice.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/exec/cuda/KernelList.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>

namespace moert::test {

using namespace moert::device;

namespace {

template <typename Kernel> void runBytes(const void *arguments) {
  runOnHost(*static_cast<const Kernel *>(arguments));
}

/// By number.
template <typename List> struct Kernels;
template <typename... All> struct Kernels<KernelList<All...>> {
  static constexpr void (*kRun[])(const void *) = {&runBytes<All>...};
};

} // namespace

EmulatedDevice::EmulatedDevice(uint64_t memoryBytes, uint64_t bytesPerMicrosecond)
    : base(static_cast<std::byte *>(
          ::mmap(nullptr, memoryBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
      size(memoryBytes), rate(bytesPerMicrosecond) {
  DeviceFunctions table;
  table.state = this;
  std::snprintf(table.name, sizeof table.name, "an emulated device");
  table.freeBytes = size;
  table.allocate = [](void *state, uint64_t bytes, void **memory) {
    return of(state).allocate(bytes, memory);
  };
  table.release = [](void *state, void *memory) -> const char * {
    of(state).allocated.erase(
        static_cast<uint64_t>(static_cast<std::byte *>(memory) - of(state).base));
    return nullptr;
  };
  table.pin = [](void *state, const void *memory, uint64_t bytes) -> const char * {
    const auto address = reinterpret_cast<uint64_t>(memory);
    if (bytes == 0)
      of(state).pinned.erase(address);
    else
      of(state).pinned[address] = bytes;
    return nullptr;
  };
  table.copy = [](void *state, uint32_t stream, void *to, const void *from,
                  uint64_t bytes) -> const char * {
    EmulatedDevice &device = of(state);
    device.bytesCopied += device.isOwn(to) && !device.isOwn(from) ? bytes : 0;
    device.submit(stream, [&device, to, from, bytes] {
      if (const uint64_t microseconds = bytes / device.rate)
        std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
      std::memcpy(to, from, bytes);
    });
    return nullptr;
  };
  table.launch = [](void *state, uint32_t stream, uint32_t kernel, const void *arguments,
                    uint32_t bytes,
                    uint32_t) { return of(state).launch(stream, kernel, arguments, bytes); };
  table.record = [](void *state, uint32_t stream, uint32_t event) -> const char * {
    EmulatedDevice &device = of(state);
    const uint64_t number = ++device.recorded[event];
    device.submit(stream, [&device, event, number] {
      std::lock_guard lock(device.mutex);
      device.done[event] = number;
      device.changed.notify_all();
    });
    return nullptr;
  };
  table.wait = [](void *state, uint32_t stream, uint32_t event) -> const char * {
    EmulatedDevice &device = of(state);
    device.submit(stream, [&device, event, number = device.recorded[event]] {
      std::unique_lock lock(device.mutex);
      device.changed.wait(lock, [&] { return device.done[event] >= number; });
    });
    return nullptr;
  };
  table.finish = [](void *state, uint32_t event) -> const char * {
    EmulatedDevice &device = of(state);
    std::unique_lock lock(device.mutex);
    device.changed.wait(lock, [&] { return device.done[event] >= device.recorded[event]; });
    return nullptr;
  };
  own = std::make_unique<FunctionBackend>(table);
  for (Stream &stream : streams)
    stream.thread = std::thread([this, &stream] { execute(stream); });
}

EmulatedDevice::~EmulatedDevice() {
  {
    std::lock_guard lock(mutex);
    isEnding = true;
    changed.notify_all();
  }
  for (Stream &stream : streams)
    stream.thread.join();
  ::munmap(base, size);
}

uint64_t EmulatedDevice::allocatedBytes() const {
  uint64_t bytes = 0;
  for (const auto &[offset, length] : allocated)
    bytes += length;
  return bytes;
}

bool EmulatedDevice::isOwn(const void *address) const {
  const auto *const byte = static_cast<const std::byte *>(address);
  return byte >= base && byte < base + size;
}

/// A number below 2^20 with half of a host address beside it, left in padding, is no address.
bool EmulatedDevice::isPinned(uint64_t address) const {
  if (uint32_t(address) < 1 << 20)
    return false;
  const auto next = pinned.upper_bound(address);
  return next != pinned.begin() && address - std::prev(next)->first < std::prev(next)->second;
}

/// First fit. New memory is full of NaN.
const char *EmulatedDevice::allocate(uint64_t bytes, void **memory) {
  uint64_t offset = 0;
  for (const auto &[begin, length] : allocated) {
    if (begin - offset >= bytes)
      break;
    offset = roundUp(begin + length, 256);
  }
  if (offset + bytes > size)
    return "out of memory";
  allocated[offset] = bytes;
  *memory = base + offset;
  access(true);
  std::memset(*memory, 0xff, bytes);
  access(false);
  return nullptr;
}

const char *EmulatedDevice::launch(uint32_t stream, uint32_t kernel, const void *arguments,
                                   uint32_t bytes) {
  if (--launchesLeft == 0)
    return "a launch that fails";
  std::vector<uint64_t> words(divideUp(bytes, sizeof(uint64_t)));
  std::memcpy(words.data(), arguments, bytes);
  for (uint64_t word : words)
    if (isPinned(word))
      return "a kernel has an address of the host";
  submit(stream,
         [words = std::move(words), kernel] { Kernels<AllKernels>::kRun[kernel](words.data()); });
  return nullptr;
}

void EmulatedDevice::submit(uint32_t stream, Work work) {
  std::lock_guard lock(mutex);
  streams[stream].queue.push_back(std::move(work));
  changed.notify_all();
}

void EmulatedDevice::execute(Stream &stream) {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return isEnding || !stream.queue.empty(); });
    if (stream.queue.empty())
      return;
    access(true);
    while (!stream.queue.empty()) {
      const Work work = std::move(stream.queue.front());
      stream.queue.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
    access(false);
  }
}

void EmulatedDevice::access(bool begins) {
  std::lock_guard lock(accessMutex);
  accesses += begins ? 1 : -1;
  if (accesses == (begins ? 1 : 0))
    (void)::mprotect(base, size, begins ? PROT_READ | PROT_WRITE : PROT_NONE);
}

} // namespace moert::test
