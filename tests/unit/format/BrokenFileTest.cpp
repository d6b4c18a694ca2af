// Broken bytes around a valid description: the first page, the sections, the manifest's encoding.
#include "runtime/base/Checksum.h"
#include "runtime/format/FilePrefix.h"
#include "runtime/format/Manifest.h"
#include "runtime/format/Reader.h"
#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>

using namespace moert;

// Byte offsets on the first page (docs/format.md).
constexpr size_t kByteOrderAt = 8, kMajorAt = 12, kMinorAt = 14, kFileBytesAt = 16, kCountAt = 24,
                 kReservedAt = 28, kSectionsAt = 32, kEntryBytes = 32, kOffsetInEntry = 8,
                 kBytesInEntry = 16, kChecksumInEntry = 24;
constexpr size_t kResidentEntry = kSectionsAt, kRecordsEntry = kSectionsAt + kEntryBytes,
                 kManifestEntry = kSectionsAt + 3 * kEntryBytes;

template <typename T> static void put(std::vector<std::byte> &file, size_t at, T value) {
  std::memcpy(&file[at], &value, sizeof(value));
}
template <typename T> static T get(const std::vector<std::byte> &file, size_t at) {
  T value;
  std::memcpy(&value, &file[at], sizeof(value));
  return value;
}

static std::string refusalOf(const std::vector<std::byte> &file) {
  auto read = readArtifact(MemorySource("broken.moe", file));
  REQUIRE(!read.isOk());
  CHECK(read.status().code() == StatusCode::kInvalidInput);
  CHECK(read.status().message().rfind("broken.moe: ", 0) == 0);
  return read.status().message();
}

static void checkRefused(const char *message,
                         const std::function<void(std::vector<std::byte> &)> &breakIt,
                         bool repairs = true) {
  Artifact artifact = tinyArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  breakIt(file);
  if (repairs)
    repairChecksums(file);
  std::string found = refusalOf(file);
  CHECK_MESSAGE(found.find(message) != std::string::npos, found);
}

TEST_CASE("a file that is not a .moe file is reported as such") {
  std::vector<std::byte> text(5000, std::byte('x'));
  CHECK(refusalOf(text).find("this is not a .moe file: it does not begin with") !=
        std::string::npos);
  CHECK(refusalOf({}).find("this is not a .moe file: it has 0 bytes") != std::string::npos);
}

TEST_CASE("a GGUF file and a pointer of git-lfs are reported as such") {
  const auto refusalOfText = [](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return refusalOf({bytes.begin(), bytes.end()});
  };
  CHECK(refusalOfText("GGUF and more").find("found a GGUF file") != std::string::npos);
  CHECK(refusalOfText("version https://git-lfs.github.com/spec/v1\n")
            .find("found a pointer of git-lfs") != std::string::npos);
}

TEST_CASE("another version is refused with both versions in the message") {
  checkRefused("the file is format 1.7, this program reads 2.x; compile it again", [](auto &f) {
    put<uint16_t>(f, kMajorAt, 1);
    put<uint16_t>(f, kMinorAt, 7);
  });
  checkRefused("the file is format 3.1, this program reads 2.x; it takes a newer version of this "
               "program",
               [](auto &f) {
                 put<uint16_t>(f, kMajorAt, 3);
                 put<uint16_t>(f, kMinorAt, 1);
               });
}

TEST_CASE("a later minor version without unknown bytes is read") {
  Artifact artifact = tinyArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  put<uint16_t>(file, kMinorAt, 7);
  repairChecksums(file);
  auto read = readArtifact(MemorySource("later.moe", file));
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(read->minorVersion == 7);
}

TEST_CASE("the other byte order is reported") {
  checkRefused("byte-order mark 04030201, expected 01020304: the file is not little-endian",
               [](auto &f) { put<uint32_t>(f, kByteOrderAt, 0x04030201); });
}

TEST_CASE("a damaged first page is found by its checksum") {
  checkRefused(
      "the first page is damaged: its checksum is", [](auto &f) { f[100] ^= std::byte(1); },
      /*repairs=*/false);
  checkRefused(
      "the first page is damaged", [](auto &f) { put<uint16_t>(f, kMajorAt, 3); },
      /*repairs=*/false);
}

TEST_CASE("a file that is shorter or longer than its first page gives is refused with both sizes") {
  checkRefused("it is cut short", [](auto &f) { f.resize(f.size() - 4096); });
  checkRefused("something follows it", [](auto &f) { f.resize(f.size() + 1); });
  checkRefused("expected at most 4611686018427387904",
               [](auto &f) { put<uint64_t>(f, kFileBytesAt, ~uint64_t(0)); });
}

TEST_CASE("unknown sections and unknown bytes of the first page are refused") {
  checkRefused("section 0 is of the unknown kind 9, this reads kinds 1 to 6",
               [](auto &f) { put<uint32_t>(f, kResidentEntry, 9); });
  checkRefused("section 0 is of the unknown kind 0",
               [](auto &f) { put<uint32_t>(f, kResidentEntry, 0); });
  checkRefused("the file has 7 sections, this reads at most 6",
               [](auto &f) { put<uint32_t>(f, kCountAt, 7); });
  checkRefused("bytes that this version does not define",
               [](auto &f) { put<uint32_t>(f, kReservedAt, 1); });
  checkRefused("bytes that this version does not define",
               [](auto &f) { put<uint32_t>(f, kRecordsEntry + 4, 1); });
  checkRefused("bytes that this version does not define", [](auto &f) { f[3000] = std::byte(1); });
}

TEST_CASE("sections out of order, overlapping, empty or apart are refused") {
  checkRefused("section records follows section records, expected resident weights, records",
               [](auto &f) {
                 put<uint32_t>(f, kResidentEntry, 2);
                 put<uint64_t>(f, kResidentEntry + kChecksumInEntry, 0);
                 put<uint64_t>(f, kResidentEntry + kBytesInEntry,
                               get<uint64_t>(f, kRecordsEntry + kOffsetInEntry) - 4096);
               });
  checkRefused("section records is at offset 4096, expected",
               [](auto &f) { put<uint64_t>(f, kRecordsEntry + kOffsetInEntry, 4096); });
  checkRefused("section resident weights is at offset 8192, expected 4096",
               [](auto &f) { put<uint64_t>(f, kResidentEntry + kOffsetInEntry, 8192); });
  checkRefused("section resident weights has 0 bytes",
               [](auto &f) { put<uint64_t>(f, kResidentEntry + kBytesInEntry, 0); });
  checkRefused("the file ends at", [](auto &f) {
    put<uint64_t>(f, kManifestEntry + kBytesInEntry, uint64_t(1) << 40);
  });
  checkRefused("the file ends at",
               [](auto &f) { put<uint64_t>(f, kResidentEntry + kBytesInEntry, ~uint64_t(0)); });
  checkRefused("section records has checksum 0000000000000005, expected 0",
               [](auto &f) { put<uint64_t>(f, kRecordsEntry + kChecksumInEntry, 5); });
  checkRefused("expected a multiple of 4096", [](auto &f) {
    put<uint64_t>(f, kRecordsEntry + kBytesInEntry,
                  get<uint64_t>(f, kRecordsEntry + kBytesInEntry) - 1);
  });
  checkRefused("the file has no manifest section", [](auto &f) {
    put<uint32_t>(f, kCountAt, 3);
    std::fill_n(f.begin() + kManifestEntry, kEntryBytes, std::byte(0));
  });
}

TEST_CASE("paths and trace are between the tokenizer and the manifest, in this order") {
  Artifact artifact = tinyPlannedArtifact();
  const std::vector<std::byte> whole = fileOf(artifact);
  constexpr size_t kPathsEntry = kSectionsAt + 3 * kEntryBytes;
  CHECK(get<uint32_t>(whole, kPathsEntry) == 6);
  CHECK(get<uint32_t>(whole, kPathsEntry + kEntryBytes) == 5);
  CHECK(readArtifact(MemorySource("tiny.moe", whole)).isOk());

  std::vector<std::byte> swapped = whole;
  put<uint32_t>(swapped, kPathsEntry, 5);
  put<uint32_t>(swapped, kPathsEntry + kEntryBytes, 6);
  repairChecksums(swapped);
  CHECK(refusalOf(swapped).find("section paths follows section trace, expected") !=
        std::string::npos);
  std::vector<std::byte> twice = whole;
  put<uint32_t>(twice, kPathsEntry + kEntryBytes, 6);
  repairChecksums(twice);
  CHECK(refusalOf(twice).find("section paths follows section paths, expected") !=
        std::string::npos);
  std::vector<std::byte> outside = whole;
  put<uint64_t>(outside, kPathsEntry + kEntryBytes + kBytesInEntry, uint64_t(1) << 50);
  repairChecksums(outside);
  CHECK(refusalOf(outside).find("section trace at offset") != std::string::npos);
}

TEST_CASE("a damaged manifest is found by its checksum before it is decoded") {
  checkRefused(
      "section manifest is damaged: its checksum is",
      [](auto &f) { f[get<uint64_t>(f, kManifestEntry + kOffsetInEntry) + 40] ^= std::byte(1); },
      /*repairs=*/false);
}

TEST_CASE("a manifest that is not a FlatBuffer, or has another identifier, is refused") {
  auto manifestAt = [](auto &f) { return get<uint64_t>(f, kManifestEntry + kOffsetInEntry); };
  checkRefused("the manifest is not well formed", [&](auto &f) {
    std::fill_n(f.begin() + ptrdiff_t(manifestAt(f)), 64, std::byte(0xff));
  });
  checkRefused("the manifest is not well formed",
               [&](auto &f) { f[manifestAt(f) + 4] = std::byte('X'); }); // The identifier.
}

TEST_CASE("a cut manifest and one with a flipped byte are never misread") {
  // Decoded alone: nothing may crash, and accepted bytes must be safe (checked by the sanitizers).
  std::vector<std::byte> manifest = encodeManifest(tinyArtifact());
  constexpr size_t kPadding = 8; // A manifest may end in padding, which nothing refers to.
  for (size_t bytes = 0; bytes + kPadding <= manifest.size(); bytes += 7) {
    Artifact artifact;
    CHECK(!decodeManifest(std::span(manifest).first(bytes), artifact).isOk());
  }
  size_t accepted = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    manifest[i] ^= std::byte(0x40);
    Artifact artifact;
    accepted += decodeManifest(manifest, artifact).isOk();
    manifest[i] ^= std::byte(0x40);
  }
  CHECK(accepted > 0);
  CHECK(accepted < manifest.size());
}

TEST_CASE("a manifest whose fields share one vector is refused before it is expanded") {
  // Each entry of the provenance refers to the first entry's table: a small manifest would decode
  // into as many copies as it has room for offsets.
  Artifact artifact = tinyArtifact();
  artifact.provenance = {{"first", std::string(60000, 'a')}};
  for (int i = 0; i < 100; ++i)
    artifact.provenance.push_back({strCat("key", i), "b"});
  std::vector<std::byte> manifest = encodeManifest(artifact);
  // The vector of 101 tables: its length, then as many offsets, each relative to its own position.
  size_t vector = 0;
  for (size_t at = 0; at + 4 * 102 <= manifest.size(); at += 4) {
    uint32_t length = get<uint32_t>(manifest, at);
    if (length == 101)
      vector = at;
  }
  REQUIRE(vector != 0);
  size_t first = vector + 4 + get<uint32_t>(manifest, vector + 4);
  for (size_t i = 1; i < 101; ++i) {
    size_t place = vector + 4 + 4 * i;
    put<uint32_t>(manifest, place, uint32_t(first - place));
  }
  Artifact decoded;
  Status status = decodeManifest(manifest, decoded);
  REQUIRE(!status.isOk());
  CHECK(status.message().find("refers to the same bytes twice") != std::string::npos);
}

TEST_CASE("a missing file and a directory are refused with the path in the message") {
  auto missing = readArtifact("/nowhere/a.moe");
  REQUIRE(!missing.isOk());
  CHECK(missing.status().code() == StatusCode::kInvalidInput);
  CHECK(missing.status().message() ==
        "/nowhere/a.moe: cannot be opened: No such file or directory");
  auto directory = readArtifact("/tmp");
  REQUIRE(!directory.isOk());
  CHECK(directory.status().message().find("/tmp") == 0);
}

TEST_CASE("for the folder of a checkpoint the message has the command that makes an artifact") {
  TemporaryDirectory directory;
  directory.write("config.json", "{}");
  auto read = readArtifact(directory.path());
  REQUIRE(!read.isOk());
  CHECK(read.status().message() ==
        strCat(directory.path(),
               ": found the folder of a checkpoint, expected an artifact; moec "
               "compile ",
               directory.path(), " -o OUT.moe makes one"));
}

TEST_CASE("a pipe is refused without blocking") {
  std::string path = strCat("/tmp/format_test_", ::getpid(), ".pipe");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  auto pipe = readArtifact(path);
  ::unlink(path.c_str());
  REQUIRE(!pipe.isOk());
  CHECK(pipe.status().message().find("this is not a regular file") != std::string::npos);
}

TEST_CASE("a file that is cut short while it is read is named once in the message") {
  Artifact tiny = tinyPlannedArtifact();
  const std::vector<std::byte> content = fileOf(tiny);
  const std::string path = strCat("/tmp/format_test_", ::getpid(), ".moe");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(content.data()), std::streamsize(content.size()));
  auto source = FileSource::open(path);
  REQUIRE(source.isOk());
  const bool isCut = ::truncate(path.c_str(), 5000) == 0;
  auto artifact = readArtifact(*source);
  ::unlink(path.c_str());
  REQUIRE(isCut);
  REQUIRE(!artifact.isOk());
  const std::string &message = artifact.status().message();
  CHECK(message.starts_with(path + ": the file ended at "));
  CHECK(message.find(path, 1) == std::string::npos);
}

TEST_CASE("a file on the disk is read at any offset and length") {
  std::vector<std::byte> content(3 * 1024 * 1024 + 77);
  for (size_t i = 0; i < content.size(); ++i)
    content[i] = std::byte(i * 7 + i / 256);
  std::string path = strCat("/tmp/format_test_", ::getpid(), ".bin");
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(content.data()), std::streamsize(content.size()));
  auto source = FileSource::open(path);
  ::unlink(path.c_str());
  REQUIRE(source.isOk());
  CHECK(source->bytes() == content.size());
  for (auto [offset, length] : {std::pair<size_t, size_t>{0, 0},
                                {0, 1},
                                {4095, 2},
                                {1, 4096},
                                {1048575, 1048578},
                                {content.size() - 5, 5},
                                {0, content.size()}}) {
    std::vector<std::byte> into(length);
    REQUIRE(source->read(offset, into).isOk());
    CHECK(std::equal(into.begin(), into.end(), content.begin() + ptrdiff_t(offset)));
  }
  std::vector<std::byte> tooMuch(10);
  Status status = source->read(content.size() - 5, tooMuch);
  REQUIRE(!status.isOk());
  CHECK(status.message().find("the end is at") != std::string::npos);
}
