// The checksum of the artifact: XXH3, 64 bits, seed 0. It finds what disks and interrupted copies
// do to a file; it is no defence against somebody who means to deceive.
#pragma once

#include "runtime/base/PagedBytes.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moert {

uint64_t checksum64(std::span<const std::byte> bytes);

/// Of the first `bytes` bytes of the view.
uint64_t checksum64(const PagedBytes &view, uint64_t bytes);

/// As messages and files of text spell one: 16 hexadecimal digits.
std::string formatChecksum(uint64_t checksum);
/// Nothing, unless the word is spelt like that.
std::optional<uint64_t> parseChecksum(std::string_view word);

/// The same number, from bytes that come in parts. Allocates nothing; one thread.
class ChecksumStream {
public:
  ChecksumStream();

  void update(std::span<const std::byte> bytes);
  /// Of everything so far; more may follow.
  uint64_t digest() const;

private:
  // XXH3_state_t, whose header stays out of this one; Checksum.cpp holds size and alignment against
  // it.
  static constexpr size_t kStateBytes = 576;
  alignas(64) std::byte state[kStateBytes];
};

} // namespace moert
