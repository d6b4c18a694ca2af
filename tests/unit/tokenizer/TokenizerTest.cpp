#include "tests/unit/tokenizer/TestTokenizers.h"

#include "runtime/base/Utf8.h"

using namespace moert;

TEST_CASE("invalid UTF-8 is read as one U+FFFD for each broken part") {
  LoadedTokenizer loaded = loadJson(readTestFile("qwen2.json"));
  CHECK(loaded.encode("a\xFF") == loaded.encode("a\xEF\xBF\xBD"));
  // The first three bytes of a four-byte character are one part, a stray continuation is another.
  CHECK(
      loaded.encode("\xF0\x9F\x98 \x80") ==
      loaded.encode(std::string(kReplacementCharacter) + " " + std::string(kReplacementCharacter)));
  CHECK(loaded.encode("a\xFF") != loaded.encode("a"));
}

TEST_CASE("a token is found by its content, also an added one") {
  LoadedTokenizer loaded = loadJson(readTestFile("qwen2.json"));
  std::optional<int32_t> end = loaded.tokenizer.idOf("<|im_end|>");
  REQUIRE(end.has_value());
  CHECK(loaded.encode("<|im_end|>") == Ids{*end});
  CHECK(loaded.tokenizer.isSpecial(*end));
  CHECK(!loaded.tokenizer.isSpecial(*loaded.tokenizer.idOf("<tool_call>")));
  CHECK(loaded.tokenizer.idOf("a").has_value());
  CHECK(!loaded.tokenizer.idOf("<|no_such_token|>").has_value());
  CHECK(!loaded.tokenizer.idOf("").has_value());
}

TEST_CASE("the vocabulary size is one more than the largest id, including holes and added tokens") {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"]["far"] = 20;
  CHECK(load(json).tokenizer.vocabularySize() == 21);
  json["model"]["vocab"].erase("far");
  json["added_tokens"].push_back(addedToken(7, "<x>"));
  CHECK(load(json).tokenizer.vocabularySize() == 8);
}

TEST_CASE("ids without a token are omitted from the text") {
  LoadedTokenizer loaded = load(smallTokenizer());
  CHECK(loaded.tokenizer.decode(Ids{0, 99, -1, 1}, false) == "ab");
}

TEST_CASE("characters outside the vocabulary vanish, become the unknown token, or are refused") {
  nlohmann::json json = smallTokenizer();
  CHECK(load(json).encode("a日b") == Ids{3});
  json["model"]["unk_token"] = "<unk>";
  CHECK(load(json).encode("a日本b") == Ids{0, 6, 6, 1});
  json["model"]["fuse_unk"] = true;
  CHECK(load(json).encode("a日本b") == Ids{0, 6, 1});
  json["model"]["unk_token"] = "<none>";
  Result<Ids> refused = load(json).tokenizer.encode("a日b", true);
  REQUIRE(!refused.isOk());
  CHECK(refused.status().code() == StatusCode::kInvalidInput);
  CHECK(refused.status().message().find("'日'") != std::string::npos);
}

TEST_CASE("with byte fallback a character takes its bytes only if all of them are there") {
  nlohmann::json json = smallTokenizer();
  json["model"]["byte_fallback"] = true;
  json["model"]["vocab"]["<0xC3>"] = 7;
  json["model"]["vocab"]["<0xA9>"] = 8;
  json["model"]["unk_token"] = "<unk>";
  CHECK(load(json).encode("aé") == Ids{0, 7, 8});
  CHECK(load(json).encode("aè") == Ids{0, 6});
}

TEST_CASE("with ignore_merges a whole piece that is a token needs no merges") {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"]["cab"] = 7;
  CHECK(load(json).encode("cab") == Ids{2, 3});
  json["model"]["ignore_merges"] = true;
  CHECK(load(json).encode("cab") == Ids{7});
}

TEST_CASE("of a pair that is listed twice, the later rank counts") {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"]["bc"] = 7;
  json["model"]["merges"] = {"a b", "b c"};
  CHECK(load(json).encode("abc") == Ids{3, 2});
  json["model"]["merges"] = {"a b", "b c", "a b"};
  CHECK(load(json).encode("abc") == Ids{0, 7});
}

TEST_CASE("an added token that begins in white space absorbed by the one before is still found") {
  nlohmann::json json = smallTokenizer();
  json["added_tokens"] = {addedToken(7, "<r>"), addedToken(8, "\n<x>"), addedToken(9, "  ")};
  json["added_tokens"][0]["rstrip"] = true;
  CHECK(load(json).encode("<r> \n<x>") == Ids{7, 8});
  CHECK(load(json).encode("<r>    a") == Ids{7, 9, 9, 0});
  // Nothing of it is left if it absorbs white space to the left itself.
  json["added_tokens"][2]["lstrip"] = true;
  CHECK(load(json).encode("<r>  a") == Ids{7, 0});
}

TEST_CASE("a special token is skipped even if normalization changes its content") {
  nlohmann::json json = smallTokenizer();
  json["normalizer"] = {{"type", "NFKC"}};
  json["added_tokens"] = nlohmann::json::array({addedToken(7, "ｅｎｄ")});
  json["added_tokens"][0]["normalized"] = true;
  CHECK(load(json).encode("aend") == Ids{0, 7});
  CHECK(load(json).tokenizer.decode(Ids{0, 7}, true) == "aend");
  json["added_tokens"][0]["special"] = true;
  CHECK(load(json).tokenizer.decode(Ids{0, 7}, true) == "a");
}

TEST_CASE("a document without a break is encoded in reasonable time") {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"]["aa"] = 7;
  json["model"]["vocab"]["aaaa"] = 8;
  json["model"]["merges"] = {"a a", "aa aa"};
  LoadedTokenizer loaded = load(json);
  // A quadratic merge would take hours here.
  CHECK(loaded.encode(std::string(1 << 20, 'a')) == Ids(1 << 18, 8));
}

TEST_CASE("a long run of spaces is split without reaching the match limit") {
  LoadedTokenizer loaded = loadJson(readTestFile("llama3.json"));
  std::string text = std::string(1 << 20, ' ') + "x";
  CHECK(loaded.tokenizer.decode(loaded.encode(text), true) == text);
}

TEST_CASE("a word of a megabyte is split by a pattern with intersections of classes") {
  LoadedTokenizer loaded = loadJson(readTestFile("kimi.json"));
  std::string text(1 << 20, 'a');
  CHECK(loaded.tokenizer.decode(loaded.encode(text), true) == text);
}

TEST_CASE("the post-processor's special tokens surround the text, in the file's order") {
  nlohmann::json json = smallTokenizer();
  json["post_processor"] = nlohmann::json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "y", "type_id": 0}}],
    "pair": [], "special_tokens": {"x": {"id": "x", "ids": [6, 5], "tokens": ["p", "q"]},
                                   "y": {"id": "y", "ids": [2], "tokens": ["c"]}}})");
  CHECK(load(json).encode("ab") == Ids{6, 5, 3, 2});
  CHECK(*load(json).tokenizer.encode("ab", false) == Ids{3});
  json["post_processor"] =
      nlohmann::json::parse(R"({"type": "RobertaProcessing", "cls": ["a", 0], "sep": ["b", 1],
                                "trim_offsets": true, "add_prefix_space": true})");
  CHECK(load(json).encode("c") == Ids{0, 2, 1});
}

TEST_CASE("the memory beyond the table does not grow with the vocabulary") {
  LoadedTokenizer small = loadJson(readTestFile("gpt2.json"));
  nlohmann::json json = nlohmann::json::parse(readTestFile("gpt2.json"));
  json["added_tokens"] = nlohmann::json::array();
  for (int id = static_cast<int>(json["model"]["vocab"].size()); id < 20000; ++id)
    json["model"]["vocab"]["token number " + std::to_string(id)] = id;
  LoadedTokenizer large = load(json);
  CHECK(large.table.size() > 10 * small.table.size());
  CHECK(large.tokenizer.memoryBytes() <= small.tokenizer.memoryBytes());
  CHECK(small.tokenizer.memoryBytes() > 0);
}
