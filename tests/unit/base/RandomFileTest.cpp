#include "runtime/base/RandomFile.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

using namespace moert;

namespace {

/// A name that no file has, and nothing is left of it.
struct FreshName {
  FreshName() {
    char name[] = "/tmp/random-file-XXXXXX";
    int file = ::mkstemp(name);
    REQUIRE(file >= 0);
    ::close(file);
    ::unlink(name);
    path = name;
  }
  ~FreshName() { ::unlink(path.c_str()); }
  std::string path;
};

} // namespace

static std::span<const std::byte> bytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

static std::string textAt(const RandomFile &file, uint64_t offset, size_t bytes) {
  std::string text(bytes, '?');
  Status status = file.readAt(offset, std::as_writable_bytes(std::span(text)));
  REQUIRE_MESSAGE(status.isOk(), status.message());
  return text;
}

TEST_CASE("what is written at a place is read from there, in any order") {
  FreshName name;
  auto file = RandomFile::open(name.path, O_RDWR | O_CREAT);
  REQUIRE(file.isOk());
  REQUIRE(file->writeAt(4, bytesOf("behind")).isOk());
  REQUIRE(file->writeAt(0, bytesOf("at")).isOk());
  CHECK(textAt(*file, 4, 6) == "behind");
  CHECK(textAt(*file, 0, 5) == std::string("at\0\0b", 5));
}

TEST_CASE("a range that the file does not hold whole is refused with what is missing") {
  FreshName name;
  auto file = RandomFile::open(name.path, O_RDWR | O_CREAT);
  REQUIRE(file.isOk());
  REQUIRE(file->writeAt(0, bytesOf("short")).isOk());
  std::byte room[8];
  Status status = file->readAt(2, room);
  CHECK(status.code() == StatusCode::kFailed);
  CHECK_MESSAGE(status.message() == name.path + " ends at 5, expected 5 bytes more",
                status.message());
  CHECK(file->readAt(2, std::span(room).first(3)).isOk());
}

TEST_CASE("a file that is not there is refused by its name unless it may be made") {
  FreshName name;
  Status status = RandomFile::open(name.path, O_RDONLY).status();
  CHECK_FALSE(status.isOk());
  CHECK(status.message().find(name.path) != std::string::npos);
  CHECK(RandomFile::open(name.path, O_RDWR | O_CREAT).isOk());
  CHECK(RandomFile::open(name.path, O_RDONLY).isOk());
}

TEST_CASE("a file that was moved is still open") {
  FreshName name;
  auto opened = RandomFile::open(name.path, O_RDWR | O_CREAT);
  REQUIRE(opened.isOk());
  RandomFile file = std::move(opened).value();
  REQUIRE(file.writeAt(0, bytesOf("moved")).isOk());
  CHECK(textAt(file, 0, 5) == "moved");
}
