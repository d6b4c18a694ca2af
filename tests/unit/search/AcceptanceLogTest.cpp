#include "compiler/search/AcceptanceLog.h"

#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

using namespace moec;
using namespace moert;

/// Documents of one part each.
static AcceptanceRecord recordOf(uint64_t checkpoint, uint64_t compile,
                                 const std::vector<uint64_t> &documents,
                                 const std::vector<uint64_t> &files = {}) {
  AcceptanceRecord record{checkpoint, compile, files, {}};
  for (uint64_t document : documents)
    record.documents.push_back({document, document});
  return record;
}

static uint32_t added(const std::string &path, uint64_t checkpoint, uint64_t compile,
                      const std::vector<uint64_t> &documents) {
  auto number = addToAcceptanceLog(path, recordOf(checkpoint, compile, documents));
  REQUIRE_MESSAGE(number.isOk(), number.status().message());
  return *number;
}

static std::string contentOf(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_CASE("compiles of a checkpoint that share a document are counted") {
  TemporaryDirectory directory;
  const std::string path = directory.path("state/moec/log.jsonl"); // Folders are created.
  CHECK(added(path, 1, 10, {100}) == 1);
  CHECK(added(path, 1, 11, {200, 100}) == 2);
  CHECK(added(path, 1, 12, {200}) == 2); // The second compile on document 200.
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

TEST_CASE("a document is found again by its beginning or its end") {
  TemporaryDirectory directory;
  const std::string path = directory.path("log.jsonl");
  CHECK(addToAcceptanceLog(path, {1, 10, {}, {{100, 101}}}).value() == 1);
  CHECK(addToAcceptanceLog(path, {1, 11, {}, {{100, 102}}}).value() == 2);
  CHECK(addToAcceptanceLog(path, {1, 12, {}, {{103, 101}}}).value() == 2);
  CHECK(addToAcceptanceLog(path, {1, 13, {}, {{104, 105}}}).value() == 1);
}

TEST_CASE("a line of an earlier version counts for its files") {
  TemporaryDirectory directory;
  const std::string path = directory.path("log.jsonl");
  std::ofstream(path) << R"({"checkpoint":"0000000000000001","compile":"000000000000000a",)"
                      << R"("texts":["0000000000000007"]})"
                      << "\n";
  CHECK(addToAcceptanceLog(path, recordOf(1, 11, {100}, {7})).value() == 2);
  CHECK(addToAcceptanceLog(path, recordOf(1, 12, {200}, {8})).value() == 1);
  CHECK(contentOf(path).find(R"("texts":["0000000000000008"],"documents":["00000000000000c8"]})") !=
        std::string::npos);
}

TEST_CASE("a number is found without a record, and adds nothing to one") {
  TemporaryDirectory directory;
  const std::string path = directory.path("log.jsonl");
  CHECK(numberInAcceptanceLog(path, recordOf(1, 10, {100})).value() == 1);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(added(path, 1, 10, {100}) == 1);
  const std::string before = contentOf(path);
  CHECK(numberInAcceptanceLog(path, recordOf(1, 10, {100})).value() == 1);
  CHECK(numberInAcceptanceLog(path, recordOf(1, 11, {100})).value() == 2);
  CHECK(contentOf(path) == before);
}

TEST_CASE("compiles that begin at the same time get different numbers") {
  TemporaryDirectory directory;
  const std::string path = directory.path("log.jsonl");
  std::vector<uint32_t> numbers(16);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < numbers.size(); ++i)
    threads.emplace_back(
        [&, i] { numbers[i] = addToAcceptanceLog(path, recordOf(1, 100 + i, {7})).value(); });
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
    auto number = addToAcceptanceLog(path, recordOf(1, 12, {100}));
    REQUIRE_FALSE(number.isOk());
    CHECK(number.status().code() == StatusCode::kInvalidInput);
    CHECK(number.status().message().find("line 2: found ") != std::string::npos);
    CHECK(contentOf(path) == whole + line);
  }
}
