#include "runtime/text/answer/GeneratedText.h"

#include "tests/unit/tokenizer/TestTokenizers.h"

using namespace moert;

namespace {

enum : int32_t { kA, kB, kEnd, kCall, kC3, kA9, kNewline };

/// Letters, special tokens and byte tokens of é and of a newline, as in Llama's files.
LoadedTokenizer lettersAndBytes() {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"] = {{"a", kA},           {"b", kB},       {"<|im_end|>", kEnd},
                            {"<call>", kCall},   {"<0xC3>", kC3}, {"<0xA9>", kA9},
                            {"<0x0A>", kNewline}};
  json["model"]["merges"] = nlohmann::json::array();
  for (auto [id, content] : {std::pair(kEnd, "<|im_end|>"), std::pair(kCall, "<call>")}) {
    nlohmann::json special = addedToken(id, content);
    special["special"] = true;
    json["added_tokens"].push_back(special);
  }
  json["decoder"] = nlohmann::json::parse(
      R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]})");
  return load(json);
}

struct Outcome {
  std::string text;
  size_t tokens = 0; // Tokens taken.
  bool isStopped = false;
  bool operator==(const Outcome &) const = default;
};

Outcome generated(const Ids &ids, std::vector<std::string> stops) {
  LoadedTokenizer loaded = lettersAndBytes();
  GeneratedText text(loaded.tokenizer, StopText::create(std::move(stops)).value());
  Outcome outcome;
  for (int32_t id : ids) {
    ++outcome.tokens;
    if (text.take(id, outcome.text))
      break;
  }
  outcome.isStopped = text.finish(outcome.text);
  CHECK(text.isStopped() == outcome.isStopped);
  return outcome;
}

} // namespace

TEST_CASE("a special token is a stop text by its content and is never shown") {
  CHECK(generated({kA, kB, kEnd, kA}, {"<|im_end|>"}) == Outcome{"ab", 3, true});
  CHECK(generated({kA, kCall, kB, kEnd}, {"<|im_end|>"}) == Outcome{"ab", 4, true});
  CHECK(generated({kA, kCall, kB}, {"<|im_end|>"}) == Outcome{"ab", 3, false});
}

TEST_CASE("a stop text can contain special tokens and text") {
  CHECK(generated({kA, kB, kEnd, kA}, {"b<|im_end|>"}) == Outcome{"a", 3, true});
  CHECK(generated({kA, kCall, kB, kA}, {"<call>b"}) == Outcome{"a", 3, true});
  CHECK(generated({kA, kCall, kEnd, kA}, {"<call><|im_end|>"}) == Outcome{"a", 3, true});
  CHECK(generated({kA, kB, kA, kEnd}, {"b<|im_end|>"}) == Outcome{"aba", 4, false});
}

TEST_CASE("a stop text is found in shown text across a special token") {
  CHECK(generated({kA, kA, kCall, kB, kA}, {"ab"}) == Outcome{"a", 4, true});
}

TEST_CASE("a stop text of byte tokens ends the text with the token of its last byte") {
  CHECK(generated({kNewline, kNewline, kA}, {"\n"}) == Outcome{"", 1, true});
  CHECK(generated({kA, kC3, kA9, kB}, {"é"}) == Outcome{"a", 3, true});
}

TEST_CASE("a broken character before a special token is text before the stop text") {
  CHECK(generated({kA, kC3, kEnd, kA9}, {"<|im_end|>"}) == Outcome{"a�", 3, true});
  CHECK(generated({kA, kC3, kEnd, kA9}, {"a<|im_end|>"}) == Outcome{"aé", 4, false});
  CHECK(generated({kA, kC3, kEnd, kA9}, {}) == Outcome{"aé", 4, false});
}

TEST_CASE("text that was held back can complete a stop text") {
  CHECK(generated({kA, kC3}, {"a�"}) == Outcome{"", 2, true});
}
