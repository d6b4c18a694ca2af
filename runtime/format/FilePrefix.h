// The first page of a .moe file: magic, version, and offsets of the sections. docs/format.md has
// the table of the bytes. Only the reader and the writer need this.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moert {

constexpr uint64_t kPrefixBytes = 4096;
constexpr uint64_t kSectionAlignment = 4096;

/// Sections lie in the file in the order resident weights, records, tokenizer, paths, trace,
/// manifest.
enum class SectionKind : uint32_t {
  kResident = 1,
  kRecords = 2,
  kTokenizer = 3,
  kManifest = 4,
  kTrace = 5,
  kPaths = 6,
};
const char *nameOf(SectionKind kind); // "resident weights", "records", "tokenizer", ...

struct Section {
  SectionKind kind = SectionKind::kManifest;
  uint64_t offset = 0;
  uint64_t bytes = 0;    // Without the zeros up to the next multiple of kSectionAlignment.
  uint64_t checksum = 0; // XXH3-64 of the section; 0 for records, whose slices have their own.
};

struct FilePrefix {
  uint16_t majorVersion = 0;
  uint16_t minorVersion = 0;
  uint64_t fileBytes = 0;
  std::vector<Section> sections;

  const Section *find(SectionKind kind) const;
};

/// One page. The sections have to be in the order of the file.
std::vector<std::byte> encodePrefix(const FilePrefix &prefix);

/// Checks everything that the page alone can prove, including fileBytes against the source's size
/// and that the sections lie in the file one after the other.
Result<FilePrefix> decodePrefix(std::span<const std::byte> page, uint64_t sourceBytes);

} // namespace moert
