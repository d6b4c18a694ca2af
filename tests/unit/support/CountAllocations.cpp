#include "tests/unit/support/CountAllocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

static std::atomic<uint64_t> allocationCount = 0;
static std::atomic<uint64_t> allocatedBytes = 0;

uint64_t moert::allocationsSoFar() {
  return allocationCount.load();
}
uint64_t moert::allocatedBytesSoFar() {
  return allocatedBytes.load();
}

/// FailAllocations.cpp, where a program has it.
namespace moert {
[[gnu::weak]] bool allocationFails();
} // namespace moert

static void *counted(void *memory, size_t bytes) {
  if (moert::allocationFails && moert::allocationFails()) {
    std::free(memory);
    memory = nullptr;
  }
  if (!memory)
    throw std::bad_alloc();
  allocationCount.fetch_add(1);
  allocatedBytes.fetch_add(bytes);
  return memory;
}

void *operator new(size_t bytes) {
  return counted(std::malloc(bytes == 0 ? 1 : bytes), bytes);
}
void *operator new(size_t bytes, std::align_val_t alignment) {
  size_t step = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(step, (bytes + step - 1) / step * step), bytes);
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
