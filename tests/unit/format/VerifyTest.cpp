// Damage to any byte of a file is found, and the message names the place.
#include "runtime/format/Verify.h"
#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

using namespace moert;

static Status verify(std::span<const std::byte> file) {
  return verifyArtifact(MemorySource("tiny.moe", file));
}

TEST_CASE("an unchanged file passes") {
  for (Artifact artifact : {tinyArtifact(), tinyPlannedArtifact()}) {
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
