#include "tools/moert/chat/SessionText.h"

#include "tests/unit/tokenizer/TestTokenizers.h"
#include "tools/moert/chat/AnswerText.h"

using namespace moert;
using namespace moert::cli;

namespace {

enum : int32_t { kA, kB, kAb, kEnd, kChannel, kMessage, kThink, kThinkEnd };

/// "ab" is one token, which a model may also generate as two; <end> is special.
LoadedTokenizer letters() {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"] = {
      {"a", kA},         {"b", kB},         {"ab", kAb},         {"<end>", kEnd},
      {"<c>", kChannel}, {"<m>", kMessage}, {"<think>", kThink}, {"</think>", kThinkEnd}};
  json["model"]["merges"] = nlohmann::json::array({"a b"});
  for (auto [id, content, isSpecial] :
       {std::tuple(kEnd, "<end>", true), std::tuple(kChannel, "<c>", true),
        std::tuple(kMessage, "<m>", true), std::tuple(kThink, "<think>", false),
        std::tuple(kThinkEnd, "</think>", false)}) {
    nlohmann::json added = addedToken(id, content);
    added["special"] = isSpecial;
    json["added_tokens"].push_back(added);
  }
  json["decoder"] = nlohmann::json::parse(R"({"type": "Fuse"})");
  return load(json);
}

} // namespace

TEST_CASE("the first prompt is tokenized whole") {
  const LoadedTokenizer loaded = letters();
  const PromptTokens prompt = SessionText(loaded.tokenizer).tokensOf("<end>abb").value();
  CHECK(prompt.tokens == Ids{kEnd, kAb, kB});
  CHECK(prompt.kept == 0);
}

TEST_CASE("a prompt that continues the session's text at a special token keeps all its tokens") {
  const LoadedTokenizer loaded = letters();
  SessionText session(loaded.tokenizer);
  session.set("<end>bab", {kEnd, kB, kA, kB}); // The answer "ab" was generated as two tokens.
  const PromptTokens prompt = session.tokensOf("<end>bab<end>a").value();
  CHECK(prompt.tokens == Ids{kEnd, kB, kA, kB, kEnd, kA});
  CHECK(prompt.kept == 4);
}

TEST_CASE("elsewhere a token could extend across the place, so the prompt is tokenized anew") {
  const LoadedTokenizer loaded = letters();
  SessionText session(loaded.tokenizer);
  session.set("<end>a", {kEnd, kA});
  const PromptTokens prompt = session.tokensOf("<end>ab").value();
  CHECK(prompt.tokens == Ids{kEnd, kAb});
  CHECK(prompt.kept == 1);
}

TEST_CASE("of another text the tokens in common are kept") {
  const LoadedTokenizer loaded = letters();
  SessionText session(loaded.tokenizer);
  session.set("<end>aba", {kEnd, kAb, kA});
  const PromptTokens prompt = session.tokensOf("<end>abb<end>").value();
  CHECK(prompt.tokens == Ids{kEnd, kAb, kB, kEnd});
  CHECK(prompt.kept == 2);
  CHECK(session.tokensOf("b").value().kept == 0);
  session.clear();
  CHECK(session.tokensOf("<end>ab").value().kept == 0);
}

TEST_CASE("an answer's whole text has its special tokens and markers, what is shown has not") {
  const LoadedTokenizer loaded = letters();
  std::string shown;
  const AnswerFormat format("");
  AnswerText answer(loaded.tokenizer, format, "<end>", [&](AnswerPart part, std::string_view text) {
    shown += part == AnswerPart::kReasoning ? "r:" : "a:";
    shown += text;
  });
  for (int32_t token : {kThink, kA, kThinkEnd, kB, kEnd, kAb})
    answer.add(token);
  answer.finish();
  CHECK(answer.whole() == "<think>a</think>b<end>ab");
  CHECK(answer.reasoning() == "a");
  CHECK(answer.answer() == "bab");
  CHECK(shown == "r:aa:ba:ab");
}
