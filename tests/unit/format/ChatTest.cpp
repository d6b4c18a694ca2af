// What a file has for conversations: it survives a round trip, and is refused where a name, a text
// or a number breaks a rule.
#include "runtime/format/Manifest.h"
#include "runtime/format/Reader.h"
#include "runtime/format/Validate.h"
#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace moert;

static Result<Artifact> readWith(const std::function<void(Artifact &)> &change) {
  Artifact artifact = tinyArtifact();
  artifact.chat = tinyChat();
  artifact.sampling = tinySampling();
  change(artifact);
  std::vector<std::byte> file = fileOf(artifact);
  return readArtifact(MemorySource("tiny.moe", file));
}

TEST_CASE("templates, special tokens and sampling defaults survive a round trip") {
  auto read = readWith([](Artifact &) {});
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(read->chat == tinyChat());
  CHECK(read->sampling == tinySampling());
}

TEST_CASE("a file without them has none") {
  auto read = readWith([](Artifact &a) {
    a.chat.reset();
    a.sampling.reset();
  });
  REQUIRE(read.isOk());
  CHECK_FALSE(read->chat);
  CHECK_FALSE(read->sampling);
}

TEST_CASE("sampling defaults that are not stated stay absent") {
  auto read = readWith([](Artifact &a) { a.sampling = SamplingDefaults{.topK = 0}; });
  REQUIRE(read.isOk());
  CHECK(read->sampling == SamplingDefaults{.topK = 0});
}

TEST_CASE("broken templates, special tokens and sampling defaults are refused") {
  struct Change {
    const char *what;
    std::function<void(Artifact &)> apply;
    const char *message;
  };
  const std::vector<Change> changes = {
      {"a template without a name", [](Artifact &a) { a.chat->templates[0].name.clear(); },
       "chat: a template's name has 0 bytes, expected 1 to 64"},
      {"a long name", [](Artifact &a) { a.chat->templates[0].name.assign(65, 'a'); },
       "chat: a template's name has 65 bytes"},
      {"a name with a line break", [](Artifact &a) { a.chat->templates[0].name = "a\nb"; },
       "chat: a template's name is not plain UTF-8"},
      {"a name twice", [](Artifact &a) { a.chat->templates[1].name = "default"; },
       "chat: 'default' follows 'default', expected ascending names"},
      {"a template that is not UTF-8", [](Artifact &a) { a.chat->templates[0].text = "\xff!"; },
       "chat: template 'default' is not UTF-8"},
      {"a large template",
       [](Artifact &a) { a.chat->templates[1].text.assign(kMaxChatTemplateBytes + 1, 'a'); },
       "chat: template 'tool_use' has 262145 bytes, expected at most 262144"},
      {"many templates",
       [](Artifact &a) {
         a.chat->templates.clear();
         for (char name = 'a'; name < 'a' + 17; ++name)
           a.chat->templates.push_back({std::string(1, name), ""});
       },
       "chat: the number of templates is 17, expected 0 to 16"},
      {"a token without a name", [](Artifact &a) { a.chat->specialTokens[0].first.clear(); },
       "chat: a special token's name has 0 bytes"},
      {"tokens out of order",
       [](Artifact &a) { std::swap(a.chat->specialTokens[0], a.chat->specialTokens[1]); },
       "chat: 'bos_token' follows 'eos_token', expected ascending names"},
      {"a long token", [](Artifact &a) { a.chat->specialTokens[0].second.assign(1025, 'a'); },
       "chat: special token 'bos_token' has 1025 bytes, expected at most 1024"},
      {"a token that is not UTF-8", [](Artifact &a) { a.chat->specialTokens[0].second = "\xc3("; },
       "chat: special token 'bos_token' is not UTF-8"},
      {"many tokens",
       [](Artifact &a) {
         for (int i = 100; i < 165; ++i)
           a.chat->specialTokens.push_back({strCat("token", i), ""});
       },
       "chat: the number of special tokens is 67, expected 0 to 64"},
      {"a temperature that is not a number", [](Artifact &a) { a.sampling->temperature = NAN; },
       "sampling: temperature is nan, expected a finite number"},
      {"a negative temperature", [](Artifact &a) { a.sampling->temperature = -1; },
       "sampling: temperature is -1"},
      {"a probability above 1", [](Artifact &a) { a.sampling->topP = 1.5f; },
       "sampling: top_p is 1.5, expected 0 to 1"},
      {"a probability of 0", [](Artifact &a) { a.sampling->topP = 0; },
       "sampling: top_p is 0, expected a number above 0"},
      {"a negative probability", [](Artifact &a) { a.sampling->minP = -0.5f; },
       "sampling: min_p is -0.5"},
      {"a penalty of 0", [](Artifact &a) { a.sampling->repetitionPenalty = 0; },
       "sampling: repetition_penalty is 0, expected 0.01 to 100"},
  };
  for (const Change &change : changes) {
    auto read = readWith(change.apply);
    REQUIRE_MESSAGE(!read.isOk(), change.what);
    CHECK_MESSAGE(read.status().message().find(change.message) != std::string::npos, change.what,
                  ": ", read.status().message());
  }
}

TEST_CASE("a switch that is neither 0 nor 1 is refused") {
  Artifact artifact = tinyArtifact();
  artifact.sampling = SamplingDefaults{.doSample = true};
  std::vector<std::byte> manifest = encodeManifest(artifact);
  // The only byte whose change makes the switch unreadable: all others give another message or
  // none.
  size_t refusals = 0;
  for (std::byte &byte : manifest) {
    const std::byte before = std::exchange(byte, std::byte(7));
    Artifact decoded;
    const Status status = decodeManifest(manifest, decoded);
    if (status.message().find("sampling: do_sample is 7, expected 0 or 1") != std::string::npos)
      ++refusals;
    byte = before;
  }
  CHECK(refusals == 1);
}
