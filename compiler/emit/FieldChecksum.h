// One checksum of many values, to compare the inputs of two computations.
#pragma once

#include "runtime/base/Checksum.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace moec {

/// Feeds values to a checksum so that two different sequences never feed the same bytes. One
/// thread.
class FieldChecksum {
public:
  template <typename T> void number(T value) {
    static_assert(std::is_integral_v<T>);
    auto wide = uint64_t(value);
    stream.update(std::as_bytes(std::span(&wide, 1)));
  }
  void bytes(std::span<const std::byte> content) {
    number(content.size());
    stream.update(content);
  }
  void text(std::string_view content) { bytes(std::as_bytes(std::span(content))); }
  uint64_t digest() const { return stream.digest(); }

private:
  moert::ChecksumStream stream;
};

} // namespace moec
