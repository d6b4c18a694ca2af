// How writing self-written text is reported; what is written is tested end to end.
#include "compiler/commands/SelfText.h"

#include "compiler/accuracy/CompileInputs.h"
#include "compiler/commands/Reference.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/search/WindowLanes.h"
#include "runtime/base/InputText.h"
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

TEST_CASE("a document's kept loss is that of scoring its window, to the bit") {
  constexpr uint32_t kTokens = 64;
  TemporaryDirectory directory;
  AccurateCompileRequest request;
  request.checkpointDirectory = MOE_TEST_DATA_DIR "/pocket-moe";
  request.acceptanceTexts = {directory.path("text.jsonl")};
  request.amounts.windowTokens = kTokens;
  auto work = WorkDirectory::open(directory.path("out"), LeftWork::kRefuse, {});
  REQUIRE(work.isOk());
  auto reference = makeReference({request.checkpointDirectory, "key", 2}, *work, {});
  REQUIRE_MESSAGE(reference.isOk(), reference.status().message());
  SelfTextRequest text;
  text.referencePath = *reference;
  text.outputPath = request.acceptanceTexts.front();
  text.documents = 5;
  text.documentTokens = kTokens;
  text.threads = 2;
  text.hasNats = true;
  REQUIRE(writeSelfText(text, {}).isOk());
  auto content = moert::readInput(text.outputPath);
  REQUIRE(content.isOk());
  const auto nats = referenceNatsOf(*content, text.outputPath);
  REQUIRE_MESSAGE(nats.isOk(), nats.status().message());
  REQUIRE(nats->size() == text.documents);

  auto model = importCheckpoint(request.checkpointDirectory);
  REQUIRE(model.isOk());
  auto texts = readCompileTexts(request, *model, {});
  REQUIRE_MESSAGE(texts.isOk(), texts.status().message());
  const moert::TextWindows &windows = texts->acceptance.front().windows;
  REQUIRE(windows.windows() == text.documents);
  WindowSet set;
  set.windows = text.documents;
  set.ids = {windows.tokens};
  set.units = {windows.units};
  auto crews = loadCrews({&*reference, 1}, kTokens, 2);
  REQUIRE_MESSAGE(crews.isOk(), crews.status().message());
  std::vector<WindowLane> lanes;
  for (const EngineCrew::Member &member : crews->front().members)
    lanes.push_back({member.source.get(), nullptr, nullptr});
  auto scores =
      evaluateWindows(set, evaluationOptionsOf(crews->front(), kTokens, false), lanes, {}, nullptr);
  REQUIRE_MESSAGE(scores.isOk(), scores.status().message());
  for (size_t i = 0; i < nats->size(); ++i)
    CHECK((*nats)[i] == (*scores)[i].lossNats);
}
