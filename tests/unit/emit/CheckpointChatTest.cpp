#include "compiler/emit/CheckpointChat.h"

#include "runtime/format/Validate.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

using namespace moec;
using moert::Chat;
using moert::NamedTemplate;
using moert::SamplingDefaults;

namespace {

using Tokens = std::vector<std::pair<std::string, std::string>>;
using Files = std::map<std::string, std::string>;

/// What is read of a tiny checkpoint with these files, and the warnings.
struct Conversation {
  explicit Conversation(Files files) {
    const TemporaryDirectory directory;
    TestCheckpoint test = tinyMixtral();
    for (const auto &[file, text] : files)
      std::filesystem::create_directories(
          std::filesystem::path(directory.path(file)).parent_path());
    test.raw = std::move(files);
    test.write(directory);
    auto checkpoint = Checkpoint::open(directory.path());
    REQUIRE_MESSAGE(checkpoint.isOk(), checkpoint.status().message());
    const auto warn = [this](std::string_view line) { warnings.emplace_back(line); };
    chat = readChat(*checkpoint, warn);
    sampling = readSamplingDefaults(*checkpoint, warn);
    // Whatever was in the files, the writer must accept what was taken over.
    if (chat)
      CHECK(moert::validateChat(*chat).isOk());
    if (sampling)
      CHECK(moert::validateSampling(*sampling).isOk());
  }

  /// Expects one warning that contains the part.
  void checkWarned(const std::string &part) const {
    REQUIRE(warnings.size() == 1);
    INFO(warnings.front());
    CHECK(warnings.front().starts_with("warning: "));
    CHECK(warnings.front().find(part) != std::string::npos);
  }

  std::optional<Chat> chat;
  std::optional<SamplingDefaults> sampling;
  std::vector<std::string> warnings;
};

Conversation ofTokenizerConfig(const std::string &text) {
  return Conversation(Files{{"tokenizer_config.json", text}});
}

} // namespace

TEST_CASE("a checkpoint without the files has nothing for conversations") {
  const Conversation none(Files{});
  CHECK_FALSE(none.chat);
  CHECK_FALSE(none.sampling);
  CHECK(none.warnings.empty());
}

TEST_CASE("a template that is a text is the default one") {
  const Conversation one = ofTokenizerConfig(R"({"chat_template": "{{ messages }}"})");
  REQUIRE(one.chat);
  CHECK(one.chat->templates == std::vector<NamedTemplate>{{"default", "{{ messages }}"}});
  CHECK(one.warnings.empty());
}

TEST_CASE("a list of templates has their names, in ascending order") {
  const Conversation two = ofTokenizerConfig(
      R"({"chat_template": [{"name": "tool_use", "template": "T"},
                            {"name": "default", "template": "D"}]})");
  REQUIRE(two.chat);
  CHECK(two.chat->templates == std::vector<NamedTemplate>{{"default", "D"}, {"tool_use", "T"}});
}

TEST_CASE("of two templates with one name the last is used, with a warning") {
  const Conversation two = ofTokenizerConfig(
      R"({"chat_template": [{"name": "default", "template": "first"},
                            {"name": "default", "template": "last"}]})");
  two.checkWarned("tokenizer_config.json: 'chat_template' has two templates named 'default'; the "
                  "artifact has the last one, as transformers does");
  REQUIRE(two.chat);
  CHECK(two.chat->templates == std::vector<NamedTemplate>{{"default", "last"}});
}

TEST_CASE("files of templates replace those of tokenizer_config.json") {
  const Conversation files(Files{{"tokenizer_config.json", R"({"chat_template": "old"})"},
                                 {"chat_template.jinja", "new\n"},
                                 {"chat_templates/rag.jinja", "R1"},
                                 {"additional_chat_templates/rag.jinja", "R2"},
                                 {"additional_chat_templates/tool_use.jinja", "T"},
                                 {"additional_chat_templates/notes.txt", "no template"}});
  REQUIRE(files.chat);
  CHECK(files.chat->templates ==
        std::vector<NamedTemplate>{{"default", "new\n"}, {"rag", "R2"}, {"tool_use", "T"}});
  CHECK(files.warnings.empty());
}

TEST_CASE("special tokens are texts or objects with a content; switches and null are not") {
  const Conversation tokens = ofTokenizerConfig(
      R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null,
          "add_bos_token": true, "image_token": "<image>", "model_max_length": 4096})");
  REQUIRE(tokens.chat);
  CHECK(tokens.chat->templates.empty());
  CHECK(tokens.chat->specialTokens ==
        Tokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"image_token", "<image>"}});
}

TEST_CASE("a template that cannot be kept is left out with a warning, and the rest is kept") {
  const std::string large(moert::kMaxChatTemplateBytes + 1, 'a');
  const Conversation tooLarge =
      ofTokenizerConfig(R"({"bos_token": "<s>", "chat_template": ")" + large + "\"}");
  tooLarge.checkWarned("tokenizer_config.json: template 'default' has 262145 bytes, expected at "
                       "most 262144; the artifact has no chat template from it");
  REQUIRE(tooLarge.chat);
  CHECK(tooLarge.chat->templates.empty());
  CHECK(tooLarge.chat->specialTokens == Tokens{{"bos_token", "<s>"}});
  Conversation(Files{{"chat_template.jinja", large}}).checkWarned("chat_template.jinja: ");
  Conversation(Files{{"chat_template.jinja", "\xff"}})
      .checkWarned("template 'default' is not UTF-8");
  Conversation(Files{{"chat_templates/" + std::string(65, 'n') + ".jinja", "T"}})
      .checkWarned("a template's name has 65 bytes");
}

TEST_CASE("a template that cannot be parsed is kept with a warning that names its line") {
  const Conversation unparsed =
      Conversation(Files{{"chat_template.jinja", "a\n{% include 'b' %}"}});
  unparsed.checkWarned("chat_template.jinja: ");
  unparsed.checkWarned("include");
  unparsed.checkWarned("line 2");
  unparsed.checkWarned("the artifact keeps this chat template, but cannot use it");
  REQUIRE(unparsed.chat);
  CHECK(unparsed.chat->templates.size() == 1);
}

TEST_CASE("a tokenizer_config.json in an unexpected form is left out with a warning") {
  ofTokenizerConfig("{").checkWarned("tokenizer_config.json: found no JSON object");
  ofTokenizerConfig("[]").checkWarned("tokenizer_config.json: found no JSON object");
  ofTokenizerConfig(R"({"chat_template": 5})")
      .checkWarned("'chat_template' is neither a text nor a list of objects");
  ofTokenizerConfig(R"({"chat_template": [{"name": "default"}]})")
      .checkWarned("'chat_template' is neither a text nor a list of objects");
  ofTokenizerConfig(R"({"chat_template": [{"name": "", "template": "T"}]})")
      .checkWarned("a template's name has 0 bytes");
  CHECK(ofTokenizerConfig(R"({"chat_template": null})").warnings.empty());
}

TEST_CASE("more templates than a file may have are left out with a warning") {
  Files files;
  for (char name = 'a'; name < 'a' + 17; ++name)
    files.insert({std::string("chat_templates/") + name + ".jinja", std::string(1, 'T')});
  const Conversation many(files);
  many.checkWarned("chat_templates/q.jinja: more than 16 chat templates");
  CHECK(many.chat->templates.size() == 16);
}

TEST_CASE("sampling defaults are those that generation_config.json states") {
  const Conversation all(
      Files{{"generation_config.json",
             R"({"do_sample": true, "temperature": 0.5, "top_k": 20, "top_p": 1.0,
                               "min_p": 0, "repetition_penalty": 1.25, "max_length": 20})"}});
  CHECK(all.sampling == SamplingDefaults{true, 0.5f, 20, 1.0f, 0.0f, 1.25f});
  const Conversation some(
      Files{{"generation_config.json", R"({"temperature": 1, "top_k": null})"}});
  CHECK(some.sampling == SamplingDefaults{.temperature = 1.0f});
  CHECK(Conversation(Files{{"generation_config.json", R"({"top_k": -1})"}}).sampling->topK == 0);
  CHECK_FALSE(Conversation(Files{{"generation_config.json", R"({"max_length": 20})"}}).sampling);
}

TEST_CASE("a sampling default outside its range is left out with a warning") {
  for (const char *text :
       {R"({"temperature": -1})", R"({"temperature": "hot"})", R"({"top_p": 0})",
        R"({"top_p": 1.5})", R"({"min_p": -0.1})", R"({"repetition_penalty": 0})",
        R"({"top_k": 0.5})", R"({"top_k": -2})", R"({"do_sample": 1})"}) {
    const Conversation wrong(Files{{"generation_config.json", text}});
    wrong.checkWarned("generation_config.json: ");
    CHECK_FALSE(wrong.sampling);
  }
}
