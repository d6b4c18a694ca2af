// The checksum of the artifact: XXH3, 64 bits, seed 0. It detects damage by disks and interrupted
// copies; it does not protect against deliberate changes.
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

/// The checksum of the first `bytes` bytes of the view.
uint64_t checksum64(const PagedBytes &view, uint64_t bytes);

/// 16 hexadecimal digits, as in messages and text files.
std::string formatChecksum(uint64_t checksum);
/// The inverse; nullopt for any other spelling.
std::optional<uint64_t> parseChecksum(std::string_view word);

/// The same checksum over data that arrives in parts. Allocates nothing. Used by one thread.
class ChecksumStream {
public:
  ChecksumStream();

  void update(std::span<const std::byte> bytes);
  /// The checksum of all bytes so far; more may follow.
  uint64_t digest() const;

private:
  // Holds an XXH3_state_t without including its header here; Checksum.cpp asserts size and
  // alignment.
  static constexpr size_t kStateBytes = 576;
  alignas(64) std::byte state[kStateBytes];
};

} // namespace moert
