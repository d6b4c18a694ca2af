#include "tests/unit/support/FailAllocations.h"

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

using moert::AllocationKind;

static std::atomic<int64_t> successesLeft = -1; // Negative: none fails.
static std::atomic<AllocationKind> failedKind = AllocationKind::kNoAllocation;

static bool fails(AllocationKind kind) {
  if (successesLeft.load() < 0 || successesLeft.fetch_sub(1) != 0)
    return false;
  failedKind = kind;
  return true;
}

moert::FailingAllocation::FailingAllocation(uint64_t successes) {
  failedKind = AllocationKind::kNoAllocation;
  successesLeft = static_cast<int64_t>(successes);
}
moert::FailingAllocation::~FailingAllocation() {
  successesLeft = -1;
}
moert::AllocationKind moert::FailingAllocation::failed() const {
  return failedKind;
}

bool moert::allocationFails() {
  return fails(AllocationKind::kNew);
}

// In place of the C library's, for the program and the libraries that it is linked from.

extern "C" void *mmap(void *address, size_t bytes, int protection, int flags, int file,
                      off_t offset) noexcept {
  if ((flags & MAP_ANONYMOUS) && fails(AllocationKind::kMap)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void *>(
      syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

extern "C" void *mremap(void *address, size_t before, size_t after, int flags, ...) noexcept {
  va_list arguments;
  va_start(arguments, flags);
  void *to = flags & MREMAP_FIXED ? va_arg(arguments, void *) : nullptr;
  va_end(arguments);
  if (after > before && fails(AllocationKind::kRemap)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void *>(syscall(SYS_mremap, address, before, after, flags, to));
}

extern "C" int madvise(void *address, size_t bytes, int advice) noexcept {
#ifdef MADV_POPULATE_WRITE
  if (advice == MADV_POPULATE_WRITE && fails(AllocationKind::kPopulate)) {
    errno = ENOMEM;
    return -1;
  }
#endif
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}
