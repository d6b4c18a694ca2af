// An output is complete under its name or absent, and a kept partial file is safe.
#include "runtime/base/OutputFile.h"

#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>

using namespace moert;
namespace fs = std::filesystem;

namespace {

std::string contentOf(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("a dropped range takes no disk and reads as zeros, and the file keeps its size") {
  TemporaryDirectory folder;
  constexpr uint64_t kBytes = 1 << 20;
  auto file = OutputFile::create(folder.path("a"));
  REQUIRE(file.isOk());
  CHECK(file->append(std::string(kBytes, 'x')).isOk());
  CHECK(file->sync().isOk());
  struct stat before, after;
  REQUIRE(::stat(file->partial().c_str(), &before) == 0);
  file->drop(4096, kBytes - 8192);
  REQUIRE(::stat(file->partial().c_str(), &after) == 0);
  if (after.st_blocks == before.st_blocks)
    return; // A file system without holes.
  CHECK((before.st_blocks - after.st_blocks) * 512 == kBytes - 8192);
  CHECK(contentOf(file->partial()) ==
        std::string(4096, 'x') + std::string(kBytes - 8192, '\0') + std::string(4096, 'x'));
}

TEST_CASE("a committed file has the written content and leaves nothing else") {
  TemporaryDirectory folder;
  {
    auto file = OutputFile::create(folder.path("a"));
    REQUIRE(file.isOk());
    CHECK(file->append("one ").isOk());
    CHECK(file->append("two").isOk());
    CHECK(file->writeAt(4, std::as_bytes(std::span("TWO", 3))).isOk());
    CHECK_FALSE(fs::exists(folder.path("a")));
    CHECK(file->commit().isOk());
  }
  CHECK(contentOf(folder.path("a")) == "one TWO");
  CHECK(folder.fileNames().size() == 1);
}

TEST_CASE("an output that would replace an input is refused by any name, others are not") {
  TemporaryDirectory folder;
  std::ofstream(folder.path("input")) << "precious";
  std::ofstream(folder.path("earlier")) << "replaced";
  fs::create_hard_link(folder.path("input"), folder.path("hard"));
  fs::create_symlink(folder.path("input"), folder.path("soft"));
  const std::string inputs[] = {"-", folder.path("missing"), folder.path("input")};
  for (const char *name : {"input", "hard", "soft"}) {
    Status status = checkReplacesNone(folder.path(name), inputs);
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK(status.message().find(folder.path("input")) != std::string::npos);
  }
  CHECK(checkReplacesNone(folder.path("earlier"), inputs).isOk());
  CHECK(checkReplacesNone(folder.path("missing"), inputs).isOk());
}

TEST_CASE("an output whose partial file would replace an input is refused") {
  TemporaryDirectory folder;
  std::ofstream(folder.path("a.partial")) << "precious";
  fs::create_symlink(folder.path("a"), folder.path("soft"));
  const std::string inputs[] = {folder.path("a.partial")};
  for (const char *name : {"a", "soft"})
    CHECK(checkReplacesNone(folder.path(name), inputs).code() == StatusCode::kInvalidInput);
  CHECK(checkReplacesNone(folder.path("b"), inputs).isOk());
}

TEST_CASE("a file that is not committed leaves nothing behind and the earlier one untouched") {
  TemporaryDirectory folder;
  std::ofstream(folder.path("a")) << "earlier";
  {
    auto file = OutputFile::create(folder.path("a"));
    REQUIRE(file.isOk());
    CHECK(file->append("later").isOk());
    CHECK(contentOf(folder.path("a")) == "earlier");
  }
  CHECK(contentOf(folder.path("a")) == "earlier");
  CHECK(folder.fileNames().size() == 1);
}

TEST_CASE("a committed file replaces the earlier one, also through a link") {
  TemporaryDirectory folder;
  std::ofstream(folder.path("a")) << "earlier and longer";
  fs::create_symlink("a", folder.path("link"));
  {
    auto file = OutputFile::create(folder.path("link"));
    REQUIRE(file.isOk());
    CHECK(file->append("later").isOk());
    CHECK(file->commit().isOk());
  }
  CHECK(fs::is_symlink(folder.path("link")));
  CHECK(contentOf(folder.path("a")) == "later");
}

TEST_CASE("writes beyond the flushing limit arrive complete") {
  TemporaryDirectory folder;
  std::string block(1 << 20, 'x');
  {
    auto file = OutputFile::create(folder.path("a"));
    REQUIRE(file.isOk());
    for (int i = 0; i < 20; ++i)
      REQUIRE(file->append(block).isOk());
    CHECK(file->commit().isOk());
  }
  CHECK(fs::file_size(folder.path("a")) == 20 * block.size());
}

TEST_CASE("a directory, a device and a missing directory are refused by name") {
  TemporaryDirectory folder;
  for (const std::string &path :
       {folder.path(), std::string("/dev/null"), folder.path("missing/a"), std::string()}) {
    auto file = OutputFile::create(path);
    REQUIRE_FALSE(file.isOk());
    CHECK(file.status().code() == StatusCode::kInvalidInput);
    CHECK(file.status().message().find(path) != std::string::npos);
  }
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("a link is followed, also to a missing file and into another directory") {
  TemporaryDirectory folder;
  fs::create_directory(folder.path("there"));
  fs::create_symlink("there/a", folder.path("link"));
  fs::create_symlink("link", folder.path("second"));
  {
    auto file = OutputFile::create(folder.path("second"));
    REQUIRE_MESSAGE(file.isOk(), file.status().message());
    CHECK(fs::exists(folder.path("there/a.partial")));
    CHECK(OutputFile::partialPathOf(folder.path("second")) == folder.path("there/a.partial"));
    CHECK(file->append("text").isOk());
    CHECK(file->commit().isOk());
  }
  CHECK(fs::is_symlink(folder.path("second")));
  CHECK(fs::is_symlink(folder.path("link")));
  CHECK(contentOf(folder.path("there/a")) == "text");
}

TEST_CASE("a link that leads nowhere is itself replaced") {
  TemporaryDirectory folder;
  fs::create_symlink("b", folder.path("a"));
  fs::create_symlink("a", folder.path("b"));
  auto file = OutputFile::create(folder.path("a"));
  // The target cannot be determined, so the file replaces the link itself.
  REQUIRE(file.isOk());
  CHECK(file->commit().isOk());
  CHECK(fs::is_regular_file(folder.path("a")));
}

TEST_CASE("a directory, a pipe or a link with the partial file's name is refused by name") {
  TemporaryDirectory folder;
  const std::string partial = folder.path("a.partial");
  auto isRefused = [&] {
    Status status = OutputFile::create(folder.path("a")).status();
    return status.code() == StatusCode::kInvalidInput &&
           status.message().find(partial) != std::string::npos;
  };
  fs::create_directory(partial);
  CHECK(isRefused());
  CHECK(fs::is_directory(partial));
  fs::remove(partial);
  REQUIRE(::mkfifo(partial.c_str(), 0600) == 0);
  CHECK(isRefused());
  fs::remove(partial);
  std::ofstream(folder.path("other")) << "precious";
  fs::create_symlink("other", partial);
  CHECK(isRefused());
  CHECK(contentOf(folder.path("other")) == "precious");
}

static void keepPartial(const TemporaryDirectory &folder, std::string_view content) {
  auto file = OutputFile::create(folder.path("a"));
  REQUIRE(file.isOk());
  REQUIRE(file->append(content).isOk());
  REQUIRE(file->sync().isOk());
  file->keep();
}

TEST_CASE("a kept partial file is resumed at the given size") {
  TemporaryDirectory folder;
  keepPartial(folder, "one two");
  CHECK(contentOf(folder.path("a.partial")) == "one two");
  {
    auto file = OutputFile::resume(folder.path("a"), 4, 7);
    REQUIRE_MESSAGE(file.isOk(), file.status().message());
    CHECK(file->position() == 4);
    CHECK(file->padTo(6).isOk());
    CHECK(file->append("2").isOk());
    CHECK(file->commit().isOk());
  }
  CHECK(contentOf(folder.path("a")) == std::string("one \0\0002", 7));
  CHECK(folder.fileNames().size() == 1);
}

TEST_CASE("a kept partial file stays unchanged if resuming or starting over is refused") {
  constexpr uint64_t kTooMuch = uint64_t(1) << 62;
  TemporaryDirectory folder;
  keepPartial(folder, "one two");
  CHECK(OutputFile::resume(folder.path("a"), 8, 9).status().code() == StatusCode::kInvalidInput);
  for (const Status &status : {OutputFile::resume(folder.path("a"), 4, kTooMuch).status(),
                               OutputFile::create(folder.path("a"), kTooMuch).status()}) {
    CHECK(status.code() == StatusCode::kFailed);
    CHECK(status.message().find("free on the disk") != std::string::npos);
  }
  {
    auto writer = OutputFile::resume(folder.path("a"), 7, 7);
    REQUIRE(writer.isOk());
    for (const Status &status : {OutputFile::resume(folder.path("a"), 4, 4).status(),
                                 OutputFile::create(folder.path("a")).status()}) {
      CHECK(status.code() == StatusCode::kInvalidInput);
      CHECK(status.message().find("is being written by another process") != std::string::npos);
    }
    writer->keep();
  }
  CHECK(contentOf(folder.path("a.partial")) == "one two");
}

TEST_CASE("an output without enough disk space leaves nothing") {
  TemporaryDirectory folder;
  CHECK_FALSE(OutputFile::create(folder.path("a"), uint64_t(1) << 62).isOk());
  CHECK(folder.fileNames().size() == 0);
}
