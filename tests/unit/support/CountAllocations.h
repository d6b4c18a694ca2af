// Counts what operator new is asked for in this program, for tests that promise to allocate
// nothing. To be included by one file of a test program, since it replaces the operators.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace moert {
inline std::atomic<uint64_t> allocationCount = 0;
inline uint64_t allocationsSoFar() {
  return allocationCount.load();
}
} // namespace moert

void *operator new(size_t bytes) {
  moert::allocationCount.fetch_add(1);
  void *memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (!memory)
    throw std::bad_alloc();
  return memory;
}
void *operator new(size_t bytes, std::align_val_t alignment) {
  moert::allocationCount.fetch_add(1);
  size_t step = static_cast<size_t>(alignment);
  void *memory = std::aligned_alloc(step, (bytes + step - 1) / step * step);
  if (!memory)
    throw std::bad_alloc();
  return memory;
}
void operator delete(void *memory) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void *memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
