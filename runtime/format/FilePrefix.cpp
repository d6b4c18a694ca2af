#include "runtime/format/FilePrefix.h"

#include "runtime/base/ArtifactPath.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/format/Writer.h"

#include <bit>
#include <cstring>

namespace moert {

// Numbers are stored in the byte order of memory.
static_assert(std::endian::native == std::endian::little,
              ".moe files are little-endian and read in place");

namespace {

constexpr auto &kMagic = kArtifactMagic;
constexpr uint32_t kByteOrderMark = 0x01020304;

constexpr size_t kByteOrderAt = 8;
constexpr size_t kMajorAt = 12;
constexpr size_t kMinorAt = 14;
constexpr size_t kFileBytesAt = 16;
constexpr size_t kSectionCountAt = 24;
constexpr size_t kReservedAt = 28;
constexpr size_t kSectionsAt = 32;
constexpr size_t kChecksumAt = kPrefixBytes - 8;

constexpr size_t kSectionKindAt = 0;
constexpr size_t kSectionReservedAt = 4;
constexpr size_t kSectionOffsetAt = 8;
constexpr size_t kSectionBytesAt = 16;
constexpr size_t kSectionChecksumAt = 24;
constexpr size_t kSectionEntryBytes = 32;
constexpr size_t kMaxSections = 6; // One of each kind.

// No file system stores more than 2^63 - 1; below this limit no rounding up can wrap.
constexpr uint64_t kMaxFileBytes = uint64_t(1) << 62;

} // namespace

const char *nameOf(SectionKind kind) {
  constexpr const char *kNames[] = {"resident weights", "records", "tokenizer",
                                    "manifest",         "trace",   "paths"};
  return kNames[static_cast<uint32_t>(kind) - 1];
}

// The position of a kind of section among the others: the manifest stays the last one.
static uint32_t placeOf(SectionKind kind) {
  constexpr uint32_t kPlaces[] = {0, 1, 2, 5, 4, 3};
  return kPlaces[static_cast<uint32_t>(kind) - 1];
}

const Section *FilePrefix::find(SectionKind kind) const {
  for (const Section &section : sections)
    if (section.kind == kind)
      return &section;
  return nullptr;
}

template <typename T> static T load(std::span<const std::byte> page, size_t at) {
  T value;
  std::memcpy(&value, page.data() + at, sizeof(value));
  return value;
}

template <typename T> static void store(std::vector<std::byte> &page, size_t at, T value) {
  std::memcpy(page.data() + at, &value, sizeof(value));
}

std::vector<std::byte> encodePrefix(const FilePrefix &prefix) {
  assert(prefix.sections.size() <= kMaxSections);
  std::vector<std::byte> page(kPrefixBytes);
  std::memcpy(page.data(), kMagic, sizeof(kMagic));
  store(page, kByteOrderAt, kByteOrderMark);
  store(page, kMajorAt, prefix.majorVersion);
  store(page, kMinorAt, prefix.minorVersion);
  store(page, kFileBytesAt, prefix.fileBytes);
  store(page, kSectionCountAt, uint32_t(prefix.sections.size()));
  size_t at = kSectionsAt;
  for (const Section &section : prefix.sections) {
    store(page, at + kSectionKindAt, uint32_t(section.kind));
    store(page, at + kSectionOffsetAt, section.offset);
    store(page, at + kSectionBytesAt, section.bytes);
    store(page, at + kSectionChecksumAt, section.checksum);
    at += kSectionEntryBytes;
  }
  store(page, kChecksumAt, checksum64(std::span<const std::byte>(page).first(kChecksumAt)));
  return page;
}

// The fields that every version keeps, so that every reader can report what it was given.
static Status checkIdentity(std::span<const std::byte> page, uint64_t sourceBytes) {
  if (std::memcmp(page.data(), kMagic, sizeof(kMagic)) != 0)
    return invalidInput("this is not a .moe file: it does not begin with the magic bytes "
                        "89 4d 4f 45 0d 0a 1a 0a");
  uint32_t byteOrder = load<uint32_t>(page, kByteOrderAt);
  if (byteOrder != kByteOrderMark)
    return invalidInput("byte-order mark ", formatChecksum(byteOrder).substr(8), ", expected ",
                        formatChecksum(kByteOrderMark).substr(8),
                        ": the file is not little-endian");
  uint64_t found = checksum64(page.first(kChecksumAt));
  uint64_t expected = load<uint64_t>(page, kChecksumAt);
  if (found != expected)
    return invalidInput("the first page is damaged: its checksum is ", formatChecksum(found),
                        ", the page stores ", formatChecksum(expected));
  uint16_t major = load<uint16_t>(page, kMajorAt);
  if (major != kFormatMajor)
    return invalidInput("the file is format ", major, ".", load<uint16_t>(page, kMinorAt),
                        ", this program reads ", kFormatMajor, ".x; ",
                        major < kFormatMajor ? "compile it again"
                                             : "it takes a newer version of this program");
  uint64_t fileBytes = load<uint64_t>(page, kFileBytesAt);
  if (fileBytes > kMaxFileBytes)
    return invalidInput("the first page gives a size of ", fileBytes, " bytes, expected at most ",
                        kMaxFileBytes);
  if (fileBytes != sourceBytes)
    return invalidInput("the file has ", sourceBytes, " bytes, its first page gives ", fileBytes,
                        sourceBytes < fileBytes
                            ? ": it is cut short, as by an unfinished copy or download"
                            : ": something follows it");
  return {};
}

// Bytes that this version does not use are zero: a later version can give them a meaning, which
// this reader then refuses instead of overlooking it.
static Status checkReserved(std::span<const std::byte> page, uint32_t sectionCount) {
  size_t end = kSectionsAt + sectionCount * kSectionEntryBytes;
  bool isZero = load<uint32_t>(page, kReservedAt) == 0;
  for (size_t i = 0; i < sectionCount; ++i)
    isZero &= load<uint32_t>(page, kSectionsAt + i * kSectionEntryBytes + kSectionReservedAt) == 0;
  for (std::byte byte : page.subspan(end, kChecksumAt - end))
    isZero &= byte == std::byte(0);
  if (!isZero)
    return invalidInput(
        "the first page has nonzero bytes that this version does not define, expected 0");
  return {};
}

// Sections are contiguous but for padding: this leaves no place for unchecked bytes and makes
// overlaps impossible.
static Status checkPlace(const Section &section, uint64_t expectedOffset, uint64_t fileBytes) {
  if (section.bytes == 0)
    return invalidInput("section ", nameOf(section.kind), " has 0 bytes, expected at least 1");
  if (section.offset != expectedOffset)
    return invalidInput("section ", nameOf(section.kind), " is at offset ", section.offset,
                        ", expected ", expectedOffset);
  if (!rangeFits(section.offset, section.bytes, fileBytes))
    return invalidInput("section ", nameOf(section.kind), " at offset ", section.offset, " has ",
                        section.bytes, " bytes, the file ends at ", fileBytes);
  if (section.kind == SectionKind::kRecords && section.bytes % kSectionAlignment != 0)
    return invalidInput("section records has ", section.bytes, " bytes, expected a multiple of ",
                        kSectionAlignment);
  if (section.kind == SectionKind::kRecords && section.checksum != 0)
    return invalidInput("section records has checksum ", formatChecksum(section.checksum),
                        ", expected 0: its slices have their own");
  return {};
}

Result<FilePrefix> decodePrefix(std::span<const std::byte> page, uint64_t sourceBytes) {
  assert(page.size() == kPrefixBytes);
  MOERT_RETURN_IF_ERROR(checkIdentity(page, sourceBytes));
  FilePrefix prefix;
  prefix.majorVersion = load<uint16_t>(page, kMajorAt);
  prefix.minorVersion = load<uint16_t>(page, kMinorAt);
  prefix.fileBytes = load<uint64_t>(page, kFileBytesAt);
  uint32_t count = load<uint32_t>(page, kSectionCountAt);
  if (count > kMaxSections)
    return invalidInput("the file has ", count, " sections, this reads at most ", kMaxSections);
  MOERT_RETURN_IF_ERROR(checkReserved(page, count));

  uint64_t end = kPrefixBytes;
  for (size_t i = 0; i < count; ++i) {
    std::span<const std::byte> entry =
        page.subspan(kSectionsAt + i * kSectionEntryBytes, kSectionEntryBytes);
    uint32_t kind = load<uint32_t>(entry, kSectionKindAt);
    if (kind < uint32_t(SectionKind::kResident) || kind > uint32_t(SectionKind::kPaths))
      return invalidInput("section ", i, " is of the unknown kind ", kind,
                          ", this reads kinds 1 to ", uint32_t(SectionKind::kPaths));
    Section section = {SectionKind(kind), load<uint64_t>(entry, kSectionOffsetAt),
                       load<uint64_t>(entry, kSectionBytesAt),
                       load<uint64_t>(entry, kSectionChecksumAt)};
    if (!prefix.sections.empty() && placeOf(section.kind) <= placeOf(prefix.sections.back().kind))
      return invalidInput("section ", nameOf(section.kind), " follows section ",
                          nameOf(prefix.sections.back().kind),
                          ", expected resident weights, records, tokenizer, paths, trace and "
                          "manifest in this order, each at most once");
    MOERT_RETURN_IF_ERROR(checkPlace(section, end, sourceBytes));
    end = roundUp(section.offset + section.bytes, kSectionAlignment);
    prefix.sections.push_back(section);
  }
  if (!prefix.find(SectionKind::kManifest))
    return invalidInput("the file has no manifest section");
  if (end != sourceBytes)
    return invalidInput("the sections end at ", end, ", the file at ", sourceBytes);
  return prefix;
}

} // namespace moert
