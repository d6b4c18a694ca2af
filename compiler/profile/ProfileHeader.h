// The header of a profile and the offsets of its sections. Hides FlatBuffers. Only the reader, the
// writer and the journal use it.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

constexpr uint16_t kProfileMajor = 3, kProfileMinor = 1;
constexpr uint64_t kProfilePageBytes = 4096;
/// Far beyond any model: a million tokens and the inputs of a thousand wide matrices take some 20
/// MB.
constexpr uint64_t kMaxProfileHeaderBytes = uint64_t(1) << 28;
/// Expert indices are stored in 16 bits.
constexpr uint32_t kMaxProfileExperts = 65535;

struct ProfileHeader {
  CalibrationInfo info;
  struct Checksums {
    uint64_t rows = 0, trace = 0;
    friend bool operator==(const Checksums &, const Checksums &) = default;
  };
  std::vector<Checksums> checksums;     // Per MoE layer.
  std::vector<uint64_t> inputChecksums; // Per resident input.
  friend bool operator==(const ProfileHeader &, const ProfileHeader &) = default;
};

std::vector<std::byte> encodeProfileHeader(const ProfileHeader &header);

/// Checks all rules between the fields. The counts of the layers from finishedLayers on are empty.
moert::Result<ProfileHeader> decodeProfileHeader(std::span<const std::byte> bytes);
moert::Status checkProfileHeader(const ProfileHeader &header, size_t finishedLayers);

/// The numbers that a block of moments has in the file: its lower triangle.
constexpr uint64_t momentNumbersOf(uint64_t blockCols) {
  return blockCols * (blockCols + 1) / 2;
}

/// The first page.
struct ProfilePrefix {
  uint64_t fileBytes = 0, headerOffset = 0, headerBytes = 0, headerChecksum = 0;
};
/// Whether a page of kProfilePageBytes begins with the magic number, for any version.
bool hasProfileMagic(std::span<const std::byte> page);
std::vector<std::byte> encodeProfilePrefix(const ProfilePrefix &prefix);
moert::Result<ProfilePrefix> decodeProfilePrefix(std::span<const std::byte> page,
                                                 uint64_t sourceBytes);

/// Offsets of one MoE layer's sections, and of the parts of its trace.
struct ProfileLayerPlace {
  uint64_t rowsOffset = 0, rowsBytes = 0, traceOffset = 0, traceBytes = 0;
  std::vector<uint32_t> predicted; // Candidates per token, per depth.
};
/// The section of a resident input's moments.
struct ProfileInputPlace {
  uint64_t offset = 0, bytes = 0;
};
struct ProfileLayout {
  std::vector<ProfileLayerPlace> layers;
  std::vector<ProfileInputPlace> inputs;
  uint64_t headerOffset = 0;

  /// Where the sections of an unfinished profile end.
  uint64_t endOf(size_t finishedLayers, size_t finishedInputs) const;
};

/// Refuses sizes whose sum overflows. The info must have passed checkProfileHeader().
moert::Result<ProfileLayout> layoutOf(const CalibrationInfo &info);

} // namespace moec
