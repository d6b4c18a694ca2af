#include "compiler/search/AcceptanceLog.h"

#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

using namespace moec;
using namespace moert;

static uint32_t added(const std::string &path, uint64_t checkpoint, uint64_t compile,
                      const std::vector<uint64_t> &texts) {
  auto number = addToAcceptanceLog(path, {checkpoint, compile, texts});
  REQUIRE_MESSAGE(number.isOk(), number.status().message());
  return *number;
}

static std::string contentOf(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("compiles of a checkpoint that share a text are counted") {
  TemporaryDirectory directory;
  const std::string path = directory.path("state/moec/log.jsonl"); // Folders are created.
  CHECK(added(path, 1, 10, {100}) == 1);
  CHECK(added(path, 1, 11, {200, 100}) == 2);
  CHECK(added(path, 1, 12, {200}) == 2); // The second compile on text 200.
  CHECK(added(path, 1, 13, {100, 300}) == 3);
  CHECK(added(path, 1, 14, {300}) == 2);
  CHECK(added(path, 1, 15, {400}) == 1);
  CHECK(added(path, 2, 10, {100}) == 1); // Another checkpoint.
}

TEST_CASE("an equal compile repeats its tests and keeps its number") {
  TemporaryDirectory directory;
  const std::string path = directory.path("log.jsonl");
  CHECK(added(path, 1, 10, {100}) == 1);
  CHECK(added(path, 1, 11, {100}) == 2);
  const std::string before = contentOf(path);
  CHECK(added(path, 1, 10, {100}) == 1);
  CHECK(added(path, 1, 11, {100}) == 2);
  CHECK(contentOf(path) == before);
}

TEST_CASE("compiles that begin at the same time get different numbers") {
  TemporaryDirectory directory;
  const std::string path = directory.path("log.jsonl");
  std::vector<uint32_t> numbers(16);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < numbers.size(); ++i)
    threads.emplace_back([&, i] {
      const uint64_t text = 7;
      numbers[i] = addToAcceptanceLog(path, {1, 100 + i, {&text, 1}}).value();
    });
  for (std::thread &thread : threads)
    thread.join();
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < numbers.size(); ++i)
    CHECK(numbers[i] == i + 1);
}

TEST_CASE("a line that was cut off is replaced, a damaged one is refused with its place") {
  TemporaryDirectory directory;
  const std::string path = directory.path("log.jsonl");
  CHECK(added(path, 1, 10, {100}) == 1);
  const std::string whole = contentOf(path);
  std::ofstream(path, std::ios::app) << R"({"checkpoint":"00000)";
  CHECK(added(path, 1, 11, {100}) == 2);
  CHECK(contentOf(path).substr(0, whole.size() + 2) == whole + "{\"");
  for (const char *line : {"moec\n", "{\"checkpoint\":\"1\",\"compile\":\"2\",\"texts\":[\"3\"]}\n",
                           "{\"checkpoint\":\"0000000000000001\"}\n"}) {
    std::ofstream(path) << whole << line;
    const uint64_t text = 100;
    auto number = addToAcceptanceLog(path, {1, 12, {&text, 1}});
    REQUIRE_FALSE(number.isOk());
    CHECK(number.status().code() == StatusCode::kInvalidInput);
    CHECK(number.status().message().find("line 2: found ") != std::string::npos);
    CHECK(contentOf(path) == whole + line);
  }
}
