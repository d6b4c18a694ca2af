#include "runtime/base/OutputFile.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

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
