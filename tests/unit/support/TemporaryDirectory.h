// A place for the files of one test.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

/// A directory of its own under the system's temporary one; removed at the end, with everything in
/// it.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    root = (std::filesystem::temp_directory_path() / "moe-test-XXXXXX").string();
    REQUIRE(::mkdtemp(root.data()) != nullptr);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;

  const std::string &path() const { return root; }
  std::string path(const std::string &name) const { return root + "/" + name; }

  std::vector<std::string> fileNames() const { // Sorted.
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(root))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  void write(const std::string &name, const std::string &bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

private:
  std::string root;
};
