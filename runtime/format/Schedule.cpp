#include "runtime/format/Schedule.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>

namespace moert {

uint64_t bufferBytesPerToken(BufferKind kind, uint32_t width, uint32_t group) {
  if (!isQuantized(kind))
    return roundUp(uint64_t(width) * 4, kBufferAlignment);
  uint64_t codes = roundUp(width, group);
  uint64_t groupsBytes = roundUp(codes / group * 4, kBufferAlignment);
  return roundUp(codes, kBufferAlignment) + 2 * groupsBytes;
}

const Program *findProgram(std::span<const Program> all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Program &program) { return program.name == name; });
  return found == all.end() ? nullptr : &*found;
}

} // namespace moert
