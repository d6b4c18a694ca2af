// The memory that requests and answers use together, beside the engine: what a request holds is
// reserved here, or the request is refused. The budget counts the capacity and each reservation's
// own bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace moert {

/// Any thread may use it. It must outlive its reservations.
class ServingMemory {
public:
  explicit ServingMemory(uint64_t capacity) : capacityBytes(capacity) {}

  uint64_t capacity() const { return capacityBytes; }
  uint64_t used() const { return usedBytes.load(std::memory_order_relaxed); }

  /// What one holder has reserved; given back by the destructor. Used by one thread at a time.
  class Reservation {
  public:
    /// ownBytes: that it has without reserving.
    Reservation(ServingMemory &shared, uint64_t ownBytes) : memory(shared), own(ownBytes) {}
    Reservation(const Reservation &) = delete;
    Reservation &operator=(const Reservation &) = delete;
    ~Reservation() { memory.usedBytes -= reserved; }

    /// Makes the reservation so large. Returns false, and changes nothing, if there is no room.
    [[nodiscard]] bool resize(uint64_t bytes) {
      const uint64_t wanted = bytes > own ? bytes - own : 0;
      if (wanted > reserved && !memory.take(wanted - reserved))
        return false;
      if (wanted < reserved)
        memory.usedBytes -= reserved - wanted;
      reserved = wanted;
      size = bytes;
      return true;
    }
    [[nodiscard]] bool add(uint64_t bytes) { return resize(size + bytes); }
    uint64_t bytes() const { return size; }

  private:
    ServingMemory &memory;
    const uint64_t own;
    uint64_t size = 0, reserved = 0;
  };

private:
  bool take(uint64_t bytes) {
    uint64_t before = usedBytes.load();
    do {
      if (bytes > capacityBytes - before)
        return false;
    } while (!usedBytes.compare_exchange_weak(before, before + bytes));
    return true;
  }

  const uint64_t capacityBytes;
  std::atomic<uint64_t> usedBytes = 0; // At most the capacity.
};

} // namespace moert
