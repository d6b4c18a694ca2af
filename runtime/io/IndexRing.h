// A bounded lock-free queue of indices between any number of threads (D. Vyukov's bounded queue).
// Each cell has a turn counter, from which a writer sees that the cell is empty and a reader that
// it is full.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace moert {

/// Any thread may push and pop. Allocates in the constructor only.
///
/// Invariant: the cell of position p has turn p while it waits for the push of p, p + 1 while it
/// waits for the pop of p, and p + capacity after that.
class IndexRing {
public:
  explicit IndexRing(size_t atLeast)
      : capacity(std::bit_ceil(atLeast)), cells(std::make_unique<Cell[]>(capacity)) {
    for (size_t i = 0; i < capacity; ++i)
      cells[i].turn.store(i, std::memory_order_relaxed);
  }

  static uint64_t memoryBytes(size_t atLeast) { return std::bit_ceil(atLeast) * sizeof(Cell); }

  /// False if the ring is full.
  bool push(uint32_t value) {
    uint64_t position = head.load(std::memory_order_relaxed);
    for (;;) {
      Cell &cell = cells[position & (capacity - 1)];
      uint64_t turn = cell.turn.load(std::memory_order_acquire);
      if (turn == position) {
        if (head.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
          cell.value = value;
          cell.turn.store(position + 1, std::memory_order_release);
          return true;
        }
      } else if (turn < position) {
        return false;
      } else {
        position = head.load(std::memory_order_relaxed);
      }
    }
  }

  /// False if the ring is empty.
  bool pop(uint32_t &value) {
    uint64_t position = tail.load(std::memory_order_relaxed);
    for (;;) {
      Cell &cell = cells[position & (capacity - 1)];
      uint64_t turn = cell.turn.load(std::memory_order_acquire);
      if (turn == position + 1) {
        if (tail.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) {
          value = cell.value;
          cell.turn.store(position + capacity, std::memory_order_release);
          return true;
        }
      } else if (turn < position + 1) {
        return false;
      } else {
        position = tail.load(std::memory_order_relaxed);
      }
    }
  }

private:
  struct Cell {
    std::atomic<uint64_t> turn;
    uint32_t value;
  };
  // Head and tail on separate cache lines: the engine writes one, the workers the other.
  static constexpr size_t kLineBytes = 64;

  size_t capacity;
  std::unique_ptr<Cell[]> cells;
  alignas(kLineBytes) std::atomic<uint64_t> head = 0;
  alignas(kLineBytes) std::atomic<uint64_t> tail = 0;
};

} // namespace moert
