#include "runtime/base/ResidentMemory.h"

#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace moert {

ResidentMemory::ResidentMemory() : file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) {}

ResidentMemory::~ResidentMemory() {
  if (file >= 0)
    ::close(file);
}

uint64_t ResidentMemory::bytes() const {
  char text[128];
  const ssize_t length = file < 0 ? -1 : ::pread(file, text, sizeof text, 0);
  if (length <= 0)
    return 0;
  // "SIZE RESIDENT SHARED ...", in pages.
  const char *end = text + length;
  const char *begin = static_cast<const char *>(std::memchr(text, ' ', size_t(length)));
  uint64_t pages = 0;
  if (!begin || std::from_chars(begin + 1, end, pages).ec != std::errc())
    return 0;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

} // namespace moert
