// An output is there whole or not at all, in its place, and what an earlier run kept is safe.
#include "runtime/base/OutputFile.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>

using namespace moert;
namespace fs = std::filesystem;

namespace {

/// A fresh folder that is gone in the end.
struct Folder {
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "output-file-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()));
    path = pattern;
  }
  ~Folder() { fs::remove_all(path); }

  std::string file(const char *name) const { return (path / name).string(); }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path), {}));
  }

  fs::path path;
};

std::string contentOf(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("a committed file has what was written, in its place alone") {
  Folder folder;
  {
    auto file = OutputFile::create(folder.file("a"));
    REQUIRE(file.isOk());
    CHECK(file->append("one ").isOk());
    CHECK(file->append("two").isOk());
    CHECK(file->writeAt(4, std::as_bytes(std::span("TWO", 3))).isOk());
    CHECK_FALSE(fs::exists(folder.file("a")));
    CHECK(file->commit().isOk());
  }
  CHECK(contentOf(folder.file("a")) == "one TWO");
  CHECK(folder.entries() == 1);
}

TEST_CASE("an output that would replace an input is refused by whatever name, others are not") {
  Folder folder;
  std::ofstream(folder.file("input")) << "precious";
  std::ofstream(folder.file("earlier")) << "replaced";
  fs::create_hard_link(folder.file("input"), folder.file("hard"));
  fs::create_symlink(folder.file("input"), folder.file("soft"));
  const std::string inputs[] = {"-", folder.file("missing"), folder.file("input")};
  for (const char *name : {"input", "hard", "soft"}) {
    Status status = checkReplacesNone(folder.file(name), inputs);
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK(status.message().find(folder.file("input")) != std::string::npos);
  }
  CHECK(checkReplacesNone(folder.file("earlier"), inputs).isOk());
  CHECK(checkReplacesNone(folder.file("missing"), inputs).isOk());
}

TEST_CASE("a file that is not committed leaves nothing behind and the earlier one untouched") {
  Folder folder;
  std::ofstream(folder.file("a")) << "earlier";
  {
    auto file = OutputFile::create(folder.file("a"));
    REQUIRE(file.isOk());
    CHECK(file->append("later").isOk());
    CHECK(contentOf(folder.file("a")) == "earlier");
  }
  CHECK(contentOf(folder.file("a")) == "earlier");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a committed file replaces the earlier one, behind a link too") {
  Folder folder;
  std::ofstream(folder.file("a")) << "earlier and longer";
  fs::create_symlink("a", folder.file("link"));
  {
    auto file = OutputFile::create(folder.file("link"));
    REQUIRE(file.isOk());
    CHECK(file->append("later").isOk());
    CHECK(file->commit().isOk());
  }
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK(contentOf(folder.file("a")) == "later");
}

TEST_CASE("writes beyond the flushing limit arrive whole") {
  Folder folder;
  std::string block(1 << 20, 'x');
  {
    auto file = OutputFile::create(folder.file("a"));
    REQUIRE(file.isOk());
    for (int i = 0; i < 20; ++i)
      REQUIRE(file->append(block).isOk());
    CHECK(file->commit().isOk());
  }
  CHECK(fs::file_size(folder.file("a")) == 20 * block.size());
}

TEST_CASE("a folder, a device and a folder that is missing are refused by name") {
  Folder folder;
  for (const std::string &path :
       {folder.path.string(), std::string("/dev/null"), folder.file("missing/a"), std::string()}) {
    auto file = OutputFile::create(path);
    REQUIRE_FALSE(file.isOk());
    CHECK(file.status().code() == StatusCode::kInvalidInput);
    CHECK(file.status().message().find(path) != std::string::npos);
  }
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("a link is followed to a file that is missing too, and into another folder") {
  Folder folder;
  fs::create_directory(folder.path / "there");
  fs::create_symlink("there/a", folder.file("link"));
  fs::create_symlink("link", folder.file("second"));
  {
    auto file = OutputFile::create(folder.file("second"));
    REQUIRE_MESSAGE(file.isOk(), file.status().message());
    CHECK(fs::exists(folder.file("there/a.partial")));
    CHECK(OutputFile::partialPathOf(folder.file("second")) == folder.file("there/a.partial"));
    CHECK(file->append("text").isOk());
    CHECK(file->commit().isOk());
  }
  CHECK(fs::is_symlink(folder.file("second")));
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK(contentOf(folder.file("there/a")) == "text");
}

TEST_CASE("a link that leads nowhere is itself replaced") {
  Folder folder;
  fs::create_symlink("b", folder.file("a"));
  fs::create_symlink("a", folder.file("b"));
  auto file = OutputFile::create(folder.file("a"));
  // Nothing is known of the place, so that the file replaces the link that was named.
  REQUIRE(file.isOk());
  CHECK(file->commit().isOk());
  CHECK(fs::is_regular_file(folder.file("a")));
}

TEST_CASE("a folder, a pipe or a link where the partial file would stand is refused by name") {
  Folder folder;
  const std::string partial = folder.file("a.partial");
  auto isRefused = [&] {
    Status status = OutputFile::create(folder.file("a")).status();
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
  std::ofstream(folder.file("other")) << "precious";
  fs::create_symlink("other", partial);
  CHECK(isRefused());
  CHECK(contentOf(folder.file("other")) == "precious");
}

static void keepPartial(const Folder &folder, std::string_view content) {
  auto file = OutputFile::create(folder.file("a"));
  REQUIRE(file.isOk());
  REQUIRE(file->append(content).isOk());
  REQUIRE(file->sync().isOk());
  file->keep();
}

TEST_CASE("what was kept is resumed where it is cut") {
  Folder folder;
  keepPartial(folder, "one two");
  CHECK(contentOf(folder.file("a.partial")) == "one two");
  {
    auto file = OutputFile::resume(folder.file("a"), 4, 7);
    REQUIRE_MESSAGE(file.isOk(), file.status().message());
    CHECK(file->position() == 4);
    CHECK(file->padTo(6).isOk());
    CHECK(file->append("2").isOk());
    CHECK(file->commit().isOk());
  }
  CHECK(contentOf(folder.file("a")) == std::string("one \0\0002", 7));
  CHECK(folder.entries() == 1);
}

TEST_CASE("what was kept stays as it is when going on or starting over is refused") {
  constexpr uint64_t kTooMuch = uint64_t(1) << 62;
  Folder folder;
  keepPartial(folder, "one two");
  CHECK(OutputFile::resume(folder.file("a"), 8, 9).status().code() == StatusCode::kInvalidInput);
  for (const Status &status : {OutputFile::resume(folder.file("a"), 4, kTooMuch).status(),
                               OutputFile::create(folder.file("a"), kTooMuch).status()}) {
    CHECK(status.code() == StatusCode::kFailed);
    CHECK(status.message().find("free on the disk") != std::string::npos);
  }
  {
    auto writer = OutputFile::resume(folder.file("a"), 7, 7);
    REQUIRE(writer.isOk());
    for (const Status &status : {OutputFile::resume(folder.file("a"), 4, 4).status(),
                                 OutputFile::create(folder.file("a")).status()}) {
      CHECK(status.code() == StatusCode::kInvalidInput);
      CHECK(status.message().find("is being written by another process") != std::string::npos);
    }
    writer->keep();
  }
  CHECK(contentOf(folder.file("a.partial")) == "one two");
}

TEST_CASE("an output that has no room leaves nothing") {
  Folder folder;
  CHECK_FALSE(OutputFile::create(folder.file("a"), uint64_t(1) << 62).isOk());
  CHECK(folder.entries() == 0);
}
