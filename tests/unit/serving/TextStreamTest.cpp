#include "runtime/serving/TextStream.h"

#include "runtime/serving/Generation.h"
#include "tests/unit/engine/SyntheticModel.h"
#include "tests/unit/tokenizer/TestTokenizers.h"

#include <cstdio>

using namespace moert;

namespace {

/// Id 7 is the token "[7]", except for ids in `others`.
LoadedTokenizer tokenizerOf(const std::map<int32_t, std::string> &others, int32_t special) {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"] = nlohmann::json::object();
  for (int32_t id = 0; id < int32_t(test::kVocabulary); ++id) {
    auto other = others.find(id);
    std::string token = other == others.end() ? strCat("[", id, "]") : other->second;
    json["model"]["vocab"][token] = id;
    if (id == special) {
      json["added_tokens"].push_back(addedToken(id, token));
      json["added_tokens"].back()["special"] = true;
    }
  }
  json["model"]["merges"] = nlohmann::json::array();
  json["decoder"] = nlohmann::json::parse(
      R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]})");
  return load(json);
}

/// Generates with given tokens instead of sampled ones.
class Generated {
public:
  static constexpr const char *kPath = "text_stream_test.moe";

  Generated(const Tokenizer *tokenizer, const Ids &given, std::vector<std::string> stops,
            TextStream::Write write = {}, bool fillsContext = false)
      : stream(tokenizer, StopText::create(std::move(stops)).value(),
               static_cast<uint32_t>(given.size()), std::move(write)) {
    REQUIRE(test::writeSyntheticModel(kPath, {}).isOk());
    auto model = Model::open(kPath);
    REQUIRE(model.isOk());
    EngineOptions options;
    options.contextTokens = 64;
    options.io = IoBackend::kThreads;
    auto account = accountMemory(**model, options);
    REQUIRE(account.isOk());
    auto engine = Engine::load(**model, options, *account);
    REQUIRE(engine.isOk());
    auto session = (*engine)->createSession();
    auto sampler = Sampler::create({}, test::kVocabulary);
    std::atomic<bool> stop = false;
    Generation generation(**engine, **session, *sampler, {}, stop);
    const Ids prompt = {1, 2};
    end = generate(generation,
                   {.prompt = prompt,
                    .maxTokens = static_cast<uint32_t>(given.size()),
                    .endTokens = {},
                    .given = given,
                    .fillsContext = fillsContext},
                   stream);
    const std::span<const int32_t> generated = generation.tokens().generated();
    ids.assign(generated.begin(), generated.end());
    std::remove(kPath);
  }

  TextStream stream;
  Result<GenerationEnd> end = GenerationEnd::kLength;
  Ids ids;
};

} // namespace

TEST_CASE("a special token that is a stop text ends the sequence with reason stop") {
  LoadedTokenizer loaded = tokenizerOf({{5, "<|im_end|>"}}, 5);
  Generated run(&loaded.tokenizer, {3, 4, 5, 3}, {"<|im_end|>"});
  CHECK(*run.end == GenerationEnd::kStop);
  CHECK(run.ids == Ids{3, 4, 5});
  CHECK(run.stream.text() == "[3][4]");
}

TEST_CASE("a stop text completed by the last allowed token is the reason, not the length") {
  LoadedTokenizer loaded = tokenizerOf({{5, "<0x0A>"}, {6, "<0xC3>"}}, -1);
  Generated newline(&loaded.tokenizer, {3, 5}, {"\n"});
  CHECK(*newline.end == GenerationEnd::kStop);
  CHECK(newline.ids == Ids{3, 5});
  Generated heldBack(&loaded.tokenizer, {3, 6}, {"�"});
  CHECK(*heldBack.end == GenerationEnd::kStop);
  CHECK(heldBack.stream.text() == "[3]");
  Generated length(&loaded.tokenizer, {3, 6}, {"x"});
  CHECK(*length.end == GenerationEnd::kLength);
  CHECK(length.stream.text() == "[3]�");
}

TEST_CASE("a full context is a separate reason") {
  LoadedTokenizer loaded = tokenizerOf({}, -1);
  Generated run(&loaded.tokenizer, {3, 4}, {}, {}, true);
  CHECK(*run.end == GenerationEnd::kContext);
  CHECK(std::string(nameOf(*run.end)) == "context");
}

TEST_CASE("each token's text is written at once, and an error of the writer ends the run") {
  LoadedTokenizer loaded = tokenizerOf({{5, "<0x0A>"}}, -1);
  std::vector<std::string> pieces;
  Generated run(&loaded.tokenizer, {5, 5, 3}, {}, [&](std::string_view piece) -> Status {
    pieces.emplace_back(piece);
    return {};
  });
  CHECK(pieces == std::vector<std::string>{"\n", "\n", "[3]"});
  CHECK(run.stream.text().empty());
  CHECK_FALSE(run.stream.isEmpty());
  Generated refused(&loaded.tokenizer, {5, 5, 3}, {}, [](std::string_view) {
    return Status(StatusCode::kFailed, "the reader is gone");
  });
  CHECK(refused.end.status().message() == "the reader is gone");
  CHECK(refused.ids == Ids{5});
}

TEST_CASE("without a tokenizer the ids are the text") {
  Generated run(nullptr, {3, 4, 5}, {});
  CHECK(run.stream.text() == "3 4 5");
  CHECK(*run.end == GenerationEnd::kLength);
}
