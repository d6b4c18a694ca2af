// The first stage alone: what is refused before anything is computed or written.
#include "compiler/accuracy/CompileInputs.h"
#include "compiler/session/WorkDirectory.h"
#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

using namespace moec;
using namespace moert;

namespace {

struct InputsFixture {
  InputsFixture() {
    request.checkpointDirectory = MOE_TEST_DATA_DIR "/pocket-moe";
    request.outputPath = directory.path("out.moe");
    request.target = 0.02;
    request.calibrationTexts = {MOE_TEST_DATA_DIR "/documents/calibration.jsonl"};
    request.acceptanceTexts = {MOE_TEST_DATA_DIR "/documents/acceptance.jsonl"};
  }

  Result<CompileInputs> read() {
    auto model = importCheckpoint(request.checkpointDirectory);
    REQUIRE_MESSAGE(model.isOk(), model.status().message());
    return readCompileInputs(request, std::move(model).value(), warnings, session);
  }

  void checkRefused(const std::string &mention) {
    const Status status = read().status();
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK_MESSAGE(status.message().find(mention) != std::string::npos, status.message());
    CHECK(!std::filesystem::exists(WorkDirectory::pathOf(request.outputPath)));
  }

  TemporaryDirectory directory;
  AccurateCompileRequest request;
  MemoryWarnings warnings;
  std::string said;
  moec::Session session{nullptr, nullptr, [this](std::string_view line) { said += line; }};
};

} // namespace

TEST_CASE_FIXTURE(InputsFixture, "texts are cut into windows of the model's tokens") {
  const Result<CompileInputs> inputs = read();
  REQUIRE_MESSAGE(inputs.isOk(), inputs.status().message());
  REQUIRE(inputs->texts.calibration.size() == 1);
  CHECK(inputs->texts.calibrationPaths == request.calibrationTexts);
  CHECK(inputs->texts.calibration[0].windows.windowTokens == request.amounts.windowTokens);
  CHECK(inputs->texts.acceptance[0].name == "acceptance.jsonl");
  CHECK(inputs->texts.items == nullptr);
  CHECK(inputs->profile == nullptr);
  CHECK(!inputs->device);
}

TEST_CASE_FIXTURE(InputsFixture, "too few units for a bound are refused before calibration") {
  request.acceptanceTexts = {directory.path("few.jsonl")};
  std::ofstream(request.acceptanceTexts[0]) << "{\"text\": \"one short document\"}\n";
  checkRefused("expected at least 20");
}

TEST_CASE_FIXTURE(InputsFixture, "a text that is missing is refused by name") {
  request.calibrationTexts = {directory.path("missing.txt")};
  checkRefused("missing.txt");
}

TEST_CASE_FIXTURE(InputsFixture,
                  "a budget that the fewest bits exceed is refused with what would do") {
  request.passes.budgets = {"8MiB"};
  checkRefused("8388608");
}

TEST_CASE_FIXTURE(InputsFixture, "a budget beyond the device's memory is a warning") {
  request.passes.budgets = {"1TiB"};
  request.passes.device = directory.path("device.yaml");
  std::filesystem::copy_file(MOE_PROFILES_DIR "/raspberry-pi-5-sd.yaml", request.passes.device);
  const Result<CompileInputs> inputs = read();
  REQUIRE_MESSAGE(inputs.isOk(), inputs.status().message());
  CHECK(inputs->device.has_value());
  CHECK(inputs->deviceHash != 0);
  CHECK(said.find("1TiB") != std::string::npos);
}
