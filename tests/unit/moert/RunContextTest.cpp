#include "tools/moert/RunContext.h"

#include "tools/moert/EngineFlags.h"

#include <doctest/doctest.h>

using namespace moert;
using namespace moert::cli;

static bool isRefused(const LengthRequest &request, uint64_t promptTokens, uint32_t positions,
                      const char *mention) {
  auto length = runLength(request, promptTokens, positions);
  return length.status().code() == StatusCode::kInvalidInput &&
         length.status().message().find(mention) != std::string::npos;
}

TEST_CASE("without options the context holds the prompt and the default number of tokens") {
  auto length = runLength({}, 10, 4096);
  CHECK(length->maxTokens == kDefaultTokens);
  CHECK(length->contextTokens == 10 + kDefaultTokens);
  CHECK_FALSE(length->isContextBound);
}

TEST_CASE("the default number of tokens shrinks to fit the model's positions and the context") {
  auto byModel = runLength({}, 60, 64);
  CHECK(byModel->maxTokens == 4);
  CHECK(byModel->contextTokens == 64);
  CHECK(byModel->isContextBound);
  auto byContext = runLength({std::nullopt, 30}, 10, 4096);
  CHECK(byContext->maxTokens == 20);
  CHECK(byContext->contextTokens == 30);
  CHECK(byContext->isContextBound);
}

TEST_CASE("a requested number of tokens fits or is refused") {
  CHECK(runLength({4, std::nullopt}, 60, 64)->maxTokens == 4);
  CHECK(isRefused({5, std::nullopt}, 60, 64, "64"));
  CHECK(runLength({6, 16}, 10, 64)->contextTokens == 16);
  CHECK(isRefused({7, 16}, 10, 64, "--context"));
}

TEST_CASE(
    "without a limit the text may fill the default context, --context or what the model has") {
  auto free = runLength({kNoLimit, std::nullopt}, 10, 40960);
  CHECK(free->maxTokens == kDefaultContext - 10);
  CHECK(free->contextTokens == kDefaultContext);
  CHECK(free->isContextBound);
  CHECK(runLength({kNoLimit, 100}, 10, 40960)->maxTokens == 90);
  CHECK(runLength({kNoLimit, std::nullopt}, 10, 64)->maxTokens == 54);
  CHECK(runLength({kNoLimit, std::nullopt}, 5000, 40960)->maxTokens == 40960 - 5000);
  CHECK(isRefused({kNoLimit, 10}, 10, 64, "--context"));
}

TEST_CASE("zero tokens may be requested, even without room for one") {
  CHECK(runLength({0, std::nullopt}, 64, 64)->maxTokens == 0);
  CHECK(isRefused({}, 64, 64, "64"));
}

TEST_CASE("prompts and contexts beyond the model's positions are refused") {
  CHECK(isRefused({}, 65, 64, "65"));
  CHECK(isRefused({0, 16}, 17, 64, "16"));
  CHECK(isRefused({std::nullopt, 65}, 1, 64, "--context 65"));
  CHECK(runLength({std::nullopt, 64}, 1, 64).isOk());
}
