#include "runtime/base/RandomFile.h"

#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <fcntl.h>

using namespace moert;

static std::span<const std::byte> bytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

static std::string textAt(const RandomFile &file, uint64_t offset, size_t bytes) {
  std::string text(bytes, '?');
  Status status = file.readAt(offset, std::as_writable_bytes(std::span(text)));
  REQUIRE_MESSAGE(status.isOk(), status.message());
  return text;
}

TEST_CASE("data is read back from the offset where it was written, in any order") {
  TemporaryDirectory directory;
  const std::string path = directory.path("file");
  auto file = RandomFile::open(path, O_RDWR | O_CREAT);
  REQUIRE(file.isOk());
  REQUIRE(file->writeAt(4, bytesOf("behind")).isOk());
  REQUIRE(file->writeAt(0, bytesOf("at")).isOk());
  CHECK(textAt(*file, 4, 6) == "behind");
  CHECK(textAt(*file, 0, 5) == std::string("at\0\0b", 5));
}

TEST_CASE("a range past the end of the file is refused with the missing bytes") {
  TemporaryDirectory directory;
  const std::string path = directory.path("file");
  auto file = RandomFile::open(path, O_RDWR | O_CREAT);
  REQUIRE(file.isOk());
  REQUIRE(file->writeAt(0, bytesOf("short")).isOk());
  std::byte room[8];
  Status status = file->readAt(2, room);
  CHECK(status.code() == StatusCode::kFailed);
  CHECK_MESSAGE(status.message() == path + " ends at 5, expected 5 bytes more", status.message());
  CHECK(file->readAt(2, std::span(room).first(3)).isOk());
}

TEST_CASE("a missing file is refused by its name unless O_CREAT is given") {
  TemporaryDirectory directory;
  const std::string path = directory.path("file");
  Status status = RandomFile::open(path, O_RDONLY).status();
  CHECK_FALSE(status.isOk());
  CHECK(status.message().find(path) != std::string::npos);
  CHECK(RandomFile::open(path, O_RDWR | O_CREAT).isOk());
  CHECK(RandomFile::open(path, O_RDONLY).isOk());
}

TEST_CASE("a file that was moved is still open") {
  TemporaryDirectory directory;
  const std::string path = directory.path("file");
  auto opened = RandomFile::open(path, O_RDWR | O_CREAT);
  REQUIRE(opened.isOk());
  RandomFile file = std::move(opened).value();
  REQUIRE(file.writeAt(0, bytesOf("moved")).isOk());
  CHECK(textAt(file, 0, 5) == "moved");
}
