// Damage to any byte of a file is found, and the message names the place.
#include "runtime/format/Verify.h"
#include "runtime/base/Checksum.h"
#include "runtime/format/Manifest.h"
#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace moert;

static Status verify(std::span<const std::byte> file) {
  return verifyArtifact(MemorySource("tiny.moe", file));
}

TEST_CASE("an unchanged file passes") {
  for (Artifact artifact :
       {tinyArtifact(), tinyPlannedArtifact(), tinyMxfp4Artifact(), tinyBlocksArtifact(),
        tinyByteScalesArtifact(), tinyHadamardArtifact()}) {
    Status status = verify(fileOf(artifact));
    CHECK_MESSAGE(status.isOk(), status.message());
  }
}

TEST_CASE("progress grows to the size of the file") {
  Artifact artifact = tinyPlannedArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  uint64_t last = 0, total = 0;
  bool grows = true;
  Status status =
      verifyArtifact(MemorySource("tiny.moe", file), [&](uint64_t done, uint64_t ofAll) {
        grows = grows && done >= last;
        last = done;
        total = ofAll;
      });
  REQUIRE(status.isOk());
  CHECK(grows);
  CHECK(last == file.size());
  CHECK(total == file.size());
}

TEST_CASE("one flipped bit anywhere in the file is found") {
  Artifact artifact = tinyPlannedArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  // An odd stride reaches every kind of byte; all bytes would take long and add nothing.
  for (size_t i = 0; i < file.size(); i += 97) {
    file[i] ^= std::byte(1 << (i % 8));
    CHECK_MESSAGE(!verify(file).isOk(), "byte ", i);
    file[i] ^= std::byte(1 << (i % 8));
  }
}

TEST_CASE("a flipped byte of a record is named with layer, expert and slice") {
  Artifact artifact = tinyArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  const Expert &expert = artifact.moeLayers[1].experts[2];
  file[expert.fileOffset + expert.slices[1].offset + 5] ^= std::byte(0x10);
  Status status = verify(file);
  REQUIRE(!status.isOk());
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find("tiny.moe: the record of layer 1, expert 2, slice 1 is damaged") ==
        0);
}

TEST_CASE("artifacts with separate copies are verified, and a damaged copy is named") {
  for (Artifact artifact : {tinyCopiesArtifact(), tinyFloatCopiesArtifact()}) {
    std::vector<std::byte> file = fileOf(artifact);
    CHECK(verify(file).isOk());
    const Expert &expert = artifact.moeLayers[1].experts[0];
    CHECK(expertPayloadBytes(artifact) + lowCopyPayloadBytes(artifact) < artifact.recordsBytes);
    CHECK(fullBytesOf(expert) == expert.slices[1].bytes);
    for (size_t slice : {0, 1}) {
      file[expert.fileOffset + expert.slices[slice].offset + 5] ^= std::byte(0x10);
      CHECK(verify(file).message().find(strCat("the record of layer 1, expert 0, slice ", slice,
                                               " is damaged")) != std::string::npos);
      file[expert.fileOffset + expert.slices[slice].offset + 5] ^= std::byte(0x10);
    }
    const uint64_t padding = expert.slices[1].offset - 1;
    REQUIRE(expert.slices[0].payloadBytes <= padding);
    file[expert.fileOffset + padding] = std::byte(1);
    CHECK(verify(file).message().find("padding after the record of layer 1, expert 0, slice 0") !=
          std::string::npos);
  }
}

TEST_CASE("a byte in a record's padding is named with its offset") {
  Artifact artifact = tinyArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  const Expert &expert = artifact.moeLayers[0].experts[3];
  uint64_t place = expert.fileOffset + expert.bytes - 1;
  REQUIRE(expert.slices[0].payloadBytes < expert.slices[0].bytes);
  file[place] = std::byte(9);
  Status status = verify(file);
  REQUIRE(!status.isOk());
  CHECK(status.message().find("padding after the record of layer 0, expert 3, slice 0") !=
        std::string::npos);
  CHECK(status.message().find(std::to_string(place)) != std::string::npos);
}

TEST_CASE("resident weights and the tokenizer are named when they are damaged") {
  Artifact artifact = tinyArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  file[artifact.residentOffset + 1] ^= std::byte(1);
  CHECK(verify(file).message().find("section resident weights is damaged") != std::string::npos);
  file[artifact.residentOffset + 1] ^= std::byte(1);
  file[artifact.tokenizerOffset] ^= std::byte(1);
  CHECK(verify(file).message().find("section tokenizer is damaged") != std::string::npos);
}

TEST_CASE("damage to paths and trace is named, and does not stop a run") {
  Artifact artifact = tinyPlannedArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  file[artifact.pathsOffset + 150] ^= std::byte(1);
  CHECK(verify(file).message().find("section paths is damaged") != std::string::npos);
  CHECK(readArtifact(MemorySource("tiny.moe", file)).isOk());
  file[artifact.pathsOffset + 150] ^= std::byte(1);
  file[artifact.traceOffset + kTinyTraceBytes - 1] ^= std::byte(1);
  CHECK(verify(file).message().find("section trace is damaged") != std::string::npos);
  CHECK(readArtifact(MemorySource("tiny.moe", file)).isOk());
  file[artifact.traceOffset + kTinyTraceBytes - 1] ^= std::byte(1);
  file[artifact.traceOffset + kTinyTraceBytes] = std::byte(1);
  CHECK(verify(file).message().find("padding after section trace") != std::string::npos);
}

TEST_CASE("a file that was cut short is refused with both sizes") {
  Artifact artifact = tinyArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  for (size_t bytes : {file.size() - 1, file.size() - 4096, size_t(4096), size_t(100), size_t(0)}) {
    Status status = verify(std::span(file).first(bytes));
    REQUIRE(!status.isOk());
    CHECK(status.message().find(std::to_string(bytes)) != std::string::npos);
  }
}

/// The file of the artifact after a change to the first slice of layer 1, expert 3, whose checksum
/// is that of the changed bytes.
static std::vector<std::byte> withChanged(Artifact artifact,
                                          void (*change)(std::span<std::byte> payload)) {
  std::vector<std::byte> file = fileOf(artifact);
  Slice &slice = artifact.moeLayers[1].experts[3].slices[0];
  const std::span<std::byte> payload =
      std::span(file).subspan(artifact.moeLayers[1].experts[3].fileOffset, slice.payloadBytes);
  change(payload);
  slice.checksum = checksum64(payload);
  auto entry = readArtifact(MemorySource("tiny.moe", file));
  REQUIRE(entry.isOk());
  const std::vector<std::byte> manifest = encodeManifest(artifact);
  REQUIRE(manifest.size() == entry->manifestBytes);
  std::copy(manifest.begin(), manifest.end(), file.begin() + ptrdiff_t(entry->manifestOffset));
  repairChecksums(file);
  return file;
}

TEST_CASE("an MXFP4 scale that is NaN is refused though its checksum is right") {
  // Matrix 1 begins at 2048, its scales at 1024 after that.
  const Status status = verify(withChanged(tinyMxfp4Artifact(), [](std::span<std::byte> payload) {
    payload[2048 + 1024 + 21] = std::byte(255);
  }));
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message() == "tiny.moe: the record of layer 1, expert 3, slice 0: matrix 1: "
                            "scale 21 is NaN, expected a power of two");
}

TEST_CASE("an MXFP4 value beyond f32 is refused, and the largest one below is not") {
  // Output 5 of the first panel: code 7, which is 6, in input 3, and code 5, which is 3.
  const auto largest = [](std::span<std::byte> payload) {
    for (size_t i = 0; i < 16; ++i)
      payload[i / 4 * 64 + 5 * 4 + i % 4] = std::byte(0x55);
    payload[1024 + 5] = std::byte(253);
  };
  CHECK(verify(withChanged(tinyMxfp4Artifact(), largest)).message() == "");
  const auto beyond = [](std::span<std::byte> payload) {
    for (size_t i = 0; i < 16; ++i)
      payload[i / 4 * 64 + 5 * 4 + i % 4] = std::byte(0x55);
    payload[5 * 4 + 1] = std::byte(0x75);
    payload[1024 + 5] = std::byte(253);
  };
  CHECK(
      verify(withChanged(tinyMxfp4Artifact(), beyond)).message() ==
      "tiny.moe: the record of layer 1, expert 3, slice 0: matrix 0: scale 5 is 2^126: the code 6 "
      "is infinite with it, expected finite values");
}

TEST_CASE("a block whose scale is no number is refused though its checksum is right") {
  // Matrix 2 begins at 4096; in each of its two panels a block has 18 bytes of 16 outputs.
  const Status status = verify(withChanged(tinyBlocksArtifact(), [](std::span<std::byte> payload) {
    payload[4096 + 18 * 16 + 3] = std::byte(0);
    payload[4096 + 18 * 16 + 16 + 3] = std::byte(0x7c);
  }));
  CHECK(status.message() ==
        "tiny.moe: the record of layer 1, expert 3, slice 0: matrix 2: block 19 "
        "of q4_0 has the scale inf, expected a finite number");
}
