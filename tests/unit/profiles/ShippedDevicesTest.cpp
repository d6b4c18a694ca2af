// The device files that come with the project.
#include "profiles/DeviceFile.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>

using namespace moec;

namespace {

std::vector<std::string> shippedFiles() {
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(MOE_PROFILES_DIR))
    if (entry.path().extension() == ".yaml")
      files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

/// Calls visit(where, line) for each line of all of them.
template <typename Visit> void visitLines(Visit visit) {
  for (const std::string &file : shippedFiles()) {
    std::ifstream stream(file);
    size_t number = 0;
    for (std::string line; std::getline(stream, line);)
      visit(file + ":" + std::to_string(++number), line);
  }
}

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("the compiler reads every shipped device file") {
  CHECK(shippedFiles().size() >= 6);
  for (const std::string &file : shippedFiles()) {
    const moert::Result<DeviceProfile> device = readDeviceFile(file);
    CHECK_MESSAGE(device.isOk(), device.status().message());
  }
}

TEST_CASE("stated values in a shipped device file name the source on their line") {
  visitLines([](const std::string &where, const std::string &line) {
    if (contains(line, "!stated"))
      CHECK_MESSAGE(contains(line.substr(line.find(" # ")), "http"), where);
  });
}

TEST_CASE("assumed values in a shipped device file give the reason on their line") {
  visitLines([](const std::string &where, const std::string &line) {
    if (contains(line, "!assumed"))
      CHECK_MESSAGE(line.find(" # ") + 10 < line.size(), where);
  });
}

TEST_CASE("no shipped device file has measured values") {
  visitLines([](const std::string &where, const std::string &line) {
    CHECK_MESSAGE(!contains(line, "!measured"), where);
  });
}
