// The first page of a profile; docs/calibration-profile.md has a table of its bytes.
#include "compiler/profile/ProfileHeader.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

using namespace moert;

namespace moec {

static_assert(std::endian::native == std::endian::little,
              "profiles are little-endian and read in place");

namespace {

// As in a .moe file: the first byte is not text, and the line ends reveal a text-mode copy.
constexpr unsigned char kMagic[8] = {0x89, 'M', 'O', 'P', '\r', '\n', 0x1a, '\n'};
constexpr uint32_t kByteOrderMark = 0x01020304;
constexpr size_t kByteOrderAt = 8;
constexpr size_t kMajorAt = 12;
constexpr size_t kMinorAt = 14;
constexpr size_t kFileBytesAt = 16;
constexpr size_t kHeaderOffsetAt = 24;
constexpr size_t kHeaderBytesAt = 32;
constexpr size_t kHeaderChecksumAt = 40;
constexpr size_t kReservedAt = 48;
constexpr size_t kChecksumAt = kProfilePageBytes - 8;

template <typename T> T load(std::span<const std::byte> page, size_t at) {
  T value;
  std::memcpy(&value, page.data() + at, sizeof(value));
  return value;
}

template <typename T> void store(std::vector<std::byte> &page, size_t at, T value) {
  std::memcpy(page.data() + at, &value, sizeof(value));
}

} // namespace

bool hasProfileMagic(std::span<const std::byte> page) {
  return std::memcmp(page.data(), kMagic, sizeof(kMagic)) == 0;
}

std::vector<std::byte> encodeProfilePrefix(const ProfilePrefix &prefix) {
  std::vector<std::byte> page(kProfilePageBytes);
  std::memcpy(page.data(), kMagic, sizeof(kMagic));
  store(page, kByteOrderAt, kByteOrderMark);
  store(page, kMajorAt, kProfileMajor);
  store(page, kMinorAt, kProfileMinor);
  store(page, kFileBytesAt, prefix.fileBytes);
  store(page, kHeaderOffsetAt, prefix.headerOffset);
  store(page, kHeaderBytesAt, prefix.headerBytes);
  store(page, kHeaderChecksumAt, prefix.headerChecksum);
  store(page, kChecksumAt, checksum64(std::span<const std::byte>(page).first(kChecksumAt)));
  return page;
}

// The fields that are the same in every version, so that any reader can identify the file.
static Status checkIdentity(std::span<const std::byte> page, uint64_t sourceBytes) {
  if (!hasProfileMagic(page))
    return invalidInput("this is not a calibration profile: it does not begin with the magic bytes "
                        "89 4d 4f 50 0d 0a 1a 0a");
  if (load<uint32_t>(page, kByteOrderAt) != kByteOrderMark)
    return invalidInput(
        "the byte-order mark is ", formatChecksum(load<uint32_t>(page, kByteOrderAt)).substr(8),
        ", expected ", formatChecksum(kByteOrderMark).substr(8), ": the file is not little-endian");
  uint64_t found = checksum64(page.first(kChecksumAt));
  uint64_t expected = load<uint64_t>(page, kChecksumAt);
  if (found != expected)
    return invalidInput("the first page is damaged: its checksum is ", formatChecksum(found),
                        ", the page has ", formatChecksum(expected));
  const uint16_t major = load<uint16_t>(page, kMajorAt);
  if (major != kProfileMajor)
    return invalidInput("the profile is format ", major, ".", load<uint16_t>(page, kMinorAt),
                        ", this program reads ", kProfileMajor, ".x; ",
                        major < kProfileMajor ? "calibrate again"
                                              : "a newer version of this program is needed");
  uint64_t fileBytes = load<uint64_t>(page, kFileBytesAt);
  if (fileBytes != sourceBytes)
    return invalidInput("the file has ", sourceBytes, " bytes, its first page has ", fileBytes,
                        sourceBytes < fileBytes ? ": it is cut short" : ": something follows it");
  return {};
}

Result<ProfilePrefix> decodeProfilePrefix(std::span<const std::byte> page, uint64_t sourceBytes) {
  MOERT_RETURN_IF_ERROR(checkIdentity(page, sourceBytes));
  auto reserved = page.subspan(kReservedAt, kChecksumAt - kReservedAt);
  if (std::any_of(reserved.begin(), reserved.end(), [](std::byte b) { return b != std::byte(0); }))
    return invalidInput(
        "the first page has nonzero bytes that this version does not define, expected 0");
  ProfilePrefix prefix = {sourceBytes, load<uint64_t>(page, kHeaderOffsetAt),
                          load<uint64_t>(page, kHeaderBytesAt),
                          load<uint64_t>(page, kHeaderChecksumAt)};
  if (prefix.headerBytes == 0 || prefix.headerBytes > kMaxProfileHeaderBytes)
    return invalidInput("the header has ", prefix.headerBytes, " bytes, expected 1 to ",
                        kMaxProfileHeaderBytes);
  if (!rangeFits(prefix.headerOffset, prefix.headerBytes, sourceBytes) ||
      prefix.headerOffset + prefix.headerBytes != sourceBytes)
    return invalidInput("the header at offset ", prefix.headerOffset, " has ", prefix.headerBytes,
                        " bytes, expected it to end with the file, at ", sourceBytes);
  return prefix;
}

} // namespace moec
