// How writing self-written text is reported; what is written is tested end to end.
#include "compiler/commands/SelfText.h"
#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace moec;

namespace {

struct Steps final : Progress {
  void begin(std::string_view step, uint64_t, uint64_t) override { names.emplace_back(step); }
  void advanceTo(uint64_t now) override { done.push_back(now); }
  void end() override {}
  std::vector<std::string> names;
  std::vector<uint64_t> done; // Reported by all steps.
};

} // namespace

TEST_CASE("the progress of writing text names what the text is for") {
  for (const char *name : {kWritingText, kWritingMeasured}) {
    TemporaryDirectory directory;
    SelfTextRequest request;
    request.outputPath = directory.path("text.jsonl");
    request.documents = 1;
    request.documentTokens = 4;
    request.label = name;
    Steps steps;
    const moert::Status status =
        selfTextOfCheckpoint(MOE_TEST_DATA_DIR "/pocket-moe", request, {&steps, nullptr, {}});
    REQUIRE_MESSAGE(status.isOk(), status.message());
    CHECK(steps.names.back() == name);
  }
}

TEST_CASE("documents that are written together count by their tokens") {
  TemporaryDirectory directory;
  SelfTextRequest request;
  request.outputPath = directory.path("text.jsonl");
  request.documents = 2;
  request.documentTokens = 32;
  Steps steps;
  const moert::Status status =
      selfTextOfCheckpoint(MOE_TEST_DATA_DIR "/pocket-moe", request, {&steps, nullptr, {}});
  REQUIRE_MESSAGE(status.isOk(), status.message());
  const uint64_t all = request.documents * request.documentTokens;
  REQUIRE(steps.done.size() >= request.documentTokens / 2);
  CHECK(steps.done.back() == all);
  // Half of the steps before, both documents were being written.
  const uint64_t before = steps.done[steps.done.size() - request.documentTokens / 2];
  CHECK(before > 0);
  CHECK(before < all);
}
