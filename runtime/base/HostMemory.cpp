#include "runtime/base/HostMemory.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace moert {

static uint64_t systemPageBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// MAP_POPULATE hides a failure; this call reports it. Kernels before 5.14 lack it: there the pages
/// are touched one by one.
static int populate(std::byte *start, uint64_t bytes, uint64_t pageBytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(start, bytes, MADV_POPULATE_WRITE) == 0)
    return 0;
  if (errno != EINVAL)
    return errno;
#endif
  for (uint64_t offset = 0; offset < bytes; offset += pageBytes)
    *const_cast<volatile std::byte *>(start + offset) = std::byte(0);
  return 0;
}

HostRegion::HostRegion(HostRegion &&other) noexcept
    : start(std::exchange(other.start, nullptr)), sizeBytes(std::exchange(other.sizeBytes, 0)) {}

HostRegion &HostRegion::operator=(HostRegion &&other) noexcept {
  std::swap(start, other.start);
  std::swap(sizeBytes, other.sizeBytes);
  return *this;
}

HostRegion::~HostRegion() {
  if (start)
    munmap(start, sizeBytes);
}

Result<HostRegion> HostRegion::create(uint64_t bytes, Populate populateNow) {
  HostRegion region;
  if (bytes == 0)
    return region;
  std::optional<uint64_t> rounded = checkedRoundUp(bytes, systemPageBytes());
  if (!rounded)
    return failed("a memory region of ", bytes, " bytes is larger than the address space");
  void *mapped =
      mmap(nullptr, *rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return systemError(errno, strCat("mapping ", bytes, " bytes of memory"));
  region.start = static_cast<std::byte *>(mapped);
  region.sizeBytes = *rounded;
#ifdef MADV_HUGEPAGE
  // Huge pages save address translations when records are read (random bytes of 1 GiB: 42 ns
  // instead of 66 on an AMD EPYC virtual machine). The budget counts the whole region, whatever its
  // page size. The system may ignore the advice.
  madvise(mapped, *rounded, MADV_HUGEPAGE);
#endif
  if (populateNow == Populate::kYes)
    if (int error = populate(region.start, *rounded, systemPageBytes()))
      return systemError(error, strCat("taking ", bytes, " bytes of memory"));
  return region;
}

/// Pages of a huge page that is given back in part stay charged until the system is short of
/// memory. Advice for a part of one splits it first.
void HostRegion::release(uint64_t from) {
  const auto rounded = checkedRoundUp(from, systemPageBytes());
  if (!rounded || *rounded >= sizeBytes)
    return;
  const uint64_t huge = 2 * 1024 * 1024;
  const auto address = reinterpret_cast<uintptr_t>(start + *rounded);
  const uint64_t toEdge = std::min((huge - address % huge) % huge, sizeBytes - *rounded);
#ifdef MADV_FREE
  if (toEdge > 0)
    madvise(start + *rounded, toEdge, MADV_FREE);
#endif
  madvise(start + *rounded, sizeBytes - *rounded, MADV_DONTNEED);
}

void HostRegion::giveBack(uint64_t from) {
  release(from);
  munmap(start + from, sizeBytes - from);
  sizeBytes = from;
  if (sizeBytes == 0)
    start = nullptr;
}

/// Others may hold pointers to the address before. It is reserved first, so that no mapping that
/// another thread has made there since is replaced.
void HostRegion::moveBack(std::byte *before) {
  void *reserved = mmap(before, sizeBytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (reserved == MAP_FAILED)
    return;
  // Kernels before 4.17 take the address as a wish.
  const bool isFree = reserved == before;
  void *moved = isFree ? mremap(start, sizeBytes, sizeBytes, MREMAP_MAYMOVE | MREMAP_FIXED, before)
                       : MAP_FAILED;
  if (moved == MAP_FAILED)
    munmap(reserved, sizeBytes);
  else
    start = before;
}

Status HostRegion::extend(uint64_t to) {
  void *moved = mremap(start, sizeBytes, to, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED)
    return systemError(errno, strCat("mapping ", to, " bytes of memory"));
  std::byte *const startBefore = std::exchange(start, static_cast<std::byte *>(moved));
  const uint64_t before = std::exchange(sizeBytes, to);
  const int error = populate(start + before, to - before, systemPageBytes());
  if (error == 0)
    return {};
  giveBack(before);
  if (start != startBefore)
    moveBack(startBefore);
  return systemError(error, strCat("taking ", to - before, " bytes of memory"));
}

Status HostRegion::resize(uint64_t bytes) {
  if (!start) {
    MOERT_ASSIGN_OR_RETURN(*this, create(bytes));
    return {};
  }
  std::optional<uint64_t> rounded = checkedRoundUp(bytes, systemPageBytes());
  if (!rounded)
    return failed("a memory region of ", bytes, " bytes is larger than the address space");
  if (*rounded > sizeBytes)
    return extend(*rounded);
  if (*rounded < sizeBytes)
    giveBack(*rounded);
  return {};
}

} // namespace moert
