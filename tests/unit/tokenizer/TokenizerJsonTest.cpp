#include "tests/unit/tokenizer/TestTokenizers.h"

using namespace moert;

namespace {

std::string refusal(const std::string &text) {
  Result<TokenizerModel> model = parseTokenizerJson(text, "dir/tokenizer.json");
  if (model.isOk())
    return "accepted";
  CHECK(model.status().code() == StatusCode::kInvalidInput);
  return model.status().message();
}

// The refusal of the small tokenizer with one value changed.
std::string refusalWith(const std::string &pointer, const std::string &value) {
  nlohmann::json json = smallTokenizer();
  json[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
  return refusal(json.dump());
}

void checkRefusal(const std::string &message, const std::string &expected) {
  CHECK_MESSAGE(message.starts_with("dir/tokenizer.json: "), message);
  CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
}

struct BrokenPlace {
  const char *pointer;
  const char *value;
  const char *expected; // Part of the message: where, what was found, what was expected.
};

const BrokenPlace kBrokenPlaces[] = {
    {"/version", R"("2.0")", "version: found '2.0', expected '1.0'"},
    {"/model", "null", "model: found nothing, expected an object"},
    {"/model/type", R"("WordPiece")",
     "model 'WordPiece' is not supported; supported are BPE, Unigram"},
    {"/model/type", "3", "model.type: found 3, expected a text"},
    {"/model/vocab", "[]", "model.vocab: found an array, expected an object"},
    {"/model/vocab", "{}", "model.vocab: found no tokens, expected at least one"},
    {"/model/vocab/x", "-1", "found -1 as the id of 'x', expected a whole number from 0 to"},
    {"/model/vocab/x", "1.5", "found 1.5 as the id of 'x', expected a whole number from 0 to"},
    {"/model/vocab/x", "null", "found null as the id of 'x', expected a whole number from 0 to"},
    {"/model/vocab/x", "4000000000", "found 4000000000 as the id of 'x', expected a whole number"},
    {"/model/vocab/x", "3", "found id 3 for both 'ab' and 'x'"},
    {"/model/vocab/", "9", "found an empty token with id 9"},
    {"/model/merges", R"("a b")", "model.merges: found 'a b', expected an array"},
    {"/model/merges/0", "7", "model.merges[0]: found 7, expected two tokens"},
    {"/model/merges/0", R"("ab")", "model.merges[0]: found 'ab', expected two tokens"},
    {"/model/merges/0", R"("a b c")", "model.merges[0]: found 'a b c', expected two tokens"},
    {"/model/merges/0", R"(["a"])", "model.merges[0]: found 1 elements, expected two tokens"},
    {"/model/merges/0", R"(["a", 1])", "model.merges[0][1]: found 1, expected a text"},
    {"/model/merges/0", R"("a z")",
     "model.merges[0]: found 'z', expected a token of the vocabulary"},
    {"/model/merges/1", R"("b c")",
     "model.merges[1]: found 'bc', expected a token of the vocabulary"},
    {"/model/dropout", "0.1", "model.dropout: found 0.1, expected none"},
    {"/model/continuing_subword_prefix", R"("##")",
     "continuing_subword_prefix: found '##', which is not"},
    {"/model/end_of_word_suffix", R"("</w>")",
     "model.end_of_word_suffix: found '</w>', which is not"},
    {"/model/unk_token", "0", "model.unk_token: found 0, expected a text"},
    {"/model/byte_fallback", R"("yes")",
     "model.byte_fallback: found 'yes', expected true or false"},
    {"/added_tokens", "{}", "added_tokens: found an object, expected an array"},
    {"/added_tokens/0", R"({"id": 7, "content": "x"})",
     "[0].single_word: found nothing, expected true or"},
    {"/normalizer", R"({"type": "Lowercase"})",
     "normalizer 'Lowercase' is not supported; supported are NFC, NFD, NFKC, NFKD, Prepend, "
     "Replace"},
    {"/normalizer", R"({"type": "Precompiled"})",
     "normalizer.precompiled_charsmap: found nothing, expected a text"},
    {"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AAA"})",
     "precompiled_charsmap: found 3 digits of base64, expected a multiple of 4"},
    {"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AA*A"})",
     "precompiled_charsmap: found '*', expected a digit of base64"},
    {"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "=AAA"})",
     "precompiled_charsmap: found '=', expected a digit of base64"},
    {"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AAAA"})",
     "found a character map of 3 bytes with a trie of 0, expected"},
    {"/normalizer", R"("NFC")", "normalizer: found 'NFC', expected an object"},
    {"/normalizer", R"({"type": "Sequence"})",
     "normalizer.normalizers: found nothing, expected an array"},
    {"/normalizer", R"({"type": "Sequence", "normalizers": [null]})",
     "normalizers[0]: found nothing"},
    {"/normalizer", R"({"type": "Prepend", "prepend": ""})", "normalizer: found an empty text"},
    {"/normalizer", R"({"type": "Replace", "pattern": {"Regex": " *"}, "content": ""})",
     "normalizer: the regular expression  * is not supported: it can match nothing"},
    {"/normalizer", R"({"type": "Replace", "pattern": {}, "content": ""})",
     "normalizer.pattern: found neither or both of String and Regex"},
    {"/normalizer", R"({"type": "Replace", "pattern": {"String": ""}, "content": ""})",
     "normalizer.pattern.String: found '', expected a pattern that is not empty"},
    {"/pre_tokenizer", R"({"type": "UnicodeScripts"})",
     "pre-tokenizer 'UnicodeScripts' is not supported; supported are ByteLevel, Split"},
    {"/pre_tokenizer",
     R"({"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": false})",
     "the regular expression (a+)+$ is not supported: at byte 5: found a repetition of a"},
    {"/pre_tokenizer",
     R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Joined", "invert": false})",
     "behavior 'Joined' is not supported; supported are Removed, Isolated"},
    {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "ab"})",
     "pre_tokenizer.replacement: found 'ab', expected one character"},
    {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
     "scheme 'last' is not supported; supported are always, first, never"},
    {"/pre_tokenizer",
     R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "add_prefix_space": false})",
     "found 'always' beside add_prefix_space false, expected 'never'"},
    {"/pre_tokenizer", R"({"type": "ByteLevel"})",
     "add_prefix_space: found nothing, expected true or"},
    {"/pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [
       {"type": "ByteLevel", "add_prefix_space": false}, {"type": "ByteLevel", "add_prefix_space": false}]})",
     "found ByteLevel twice, expected at most once"},
    {"/post_processor", R"({"type": "Other"})",
     "post-processor 'Other' is not supported; supported are TemplateProcessing"},
    {"/post_processor", R"({"type": "TemplateProcessing", "single": []})",
     "post_processor.single: found no sequence A, expected it once"},
    {"/post_processor", R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}]})",
     "found sequence 'B', expected sequence A once"},
    {"/post_processor", R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}],
       "special_tokens": {"x": {"ids": [7]}}})",
     "special_tokens.x.ids[0]: found 7, expected a whole number from 0 to 6"},
    {"/post_processor", R"({"type": "RobertaProcessing", "cls": ["a", 0], "sep": ["b", -1]})",
     "post_processor.sep[1]: found -1, expected a whole number from 0 to 6"},
    {"/decoder", R"({"type": "CTC"})", "decoder 'CTC' is not supported; supported are ByteLevel"},
    {"/decoder", R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})",
     "decoder.start: found -1, expected a whole number from 0 to"},
};

} // namespace

TEST_CASE("the small tokenizer that the refusals start from is accepted") {
  CHECK(refusal(smallTokenizer().dump()) == "accepted");
}

TEST_CASE("a broken or unsupported value is refused with file, place, found and expected") {
  for (const BrokenPlace &place : kBrokenPlaces) {
    CAPTURE(place.value);
    checkRefusal(refusalWith(place.pointer, place.value), place.expected);
  }
}

TEST_CASE("a refusal stays short for names and values of any length") {
  const std::string longText(5000, 'x'), longValue = '"' + longText + '"';
  const char *kPlaces[] = {"/version", "/model/type", "/model/end_of_word_suffix", "/normalizer",
                           "/model/merges/0"};
  std::vector<std::string> messages;
  for (const char *place : kPlaces)
    messages.push_back(refusalWith(place, longValue));
  messages.push_back(refusalWith("/normalizer", R"({"type": )" + longValue + "}"));
  messages.push_back(refusalWith("/pre_tokenizer", R"({"type": "Split", "behavior": "Isolated",
      "invert": false, "pattern": {"Regex": "(?<=)" + longText +
                                                       "\"}}"));
  messages.push_back(refusalWith("/model/vocab/" + longText, "-1"));
  messages.push_back(refusalWith("/model/vocab/" + longText, "3"));
  messages.push_back(refusal("{" + longValue + ": 1, " + longValue + ": 2}"));
  messages.push_back(refusal("{\"a\": \"" + longText));
  for (const std::string &message : messages) {
    CHECK_MESSAGE(message != "accepted", message);
    CHECK_MESSAGE(message.size() < 500, message);
    CHECK_MESSAGE(message.find("xxx...") != std::string::npos, message);
  }
}

TEST_CASE("an added token with another id than the reference package gives it is refused") {
  nlohmann::json json = smallTokenizer();
  json["added_tokens"].push_back(addedToken(7, "<x>"));
  CHECK(refusal(json.dump()) == "accepted");
  json["added_tokens"][0]["id"] = 9;
  checkRefusal(refusal(json.dump()),
               "added_tokens[0].id: found 9 for '<x>', expected 7, the next one");
  json["added_tokens"][0] = addedToken(1, "a");
  checkRefusal(refusal(json.dump()), "added_tokens[0].id: found 1 for 'a', expected 0, its id in");
}

TEST_CASE("Metaspace 'first' is refused if the front of the text may have been removed") {
  nlohmann::json json = smallTokenizer();
  nlohmann::json metaspace = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  json["pre_tokenizer"] = metaspace;
  CHECK(refusal(json.dump()) == "accepted");
  json["normalizer"] = {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}};
  CHECK(refusal(json.dump()) == "accepted");
  json["normalizer"]["strip_left"] = true;
  checkRefusal(refusal(json.dump()), "'first' after a normalizer that removes or replaces leading");
  // The reference package loses the front at a replaced text of several characters.
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "ab"}}}, {"content", "c"}};
  checkRefusal(refusal(json.dump()), "'first' after a normalizer that removes or replaces leading");
  json["normalizer"]["pattern"] = {{"String", "a"}};
  CHECK(refusal(json.dump()) == "accepted");
  json["normalizer"]["pattern"] = {{"Regex", " {2,}"}};
  checkRefusal(refusal(json.dump()), "'first' after a normalizer that removes or replaces leading");
  json["normalizer"]["content"] = "▁"; // Nothing is prepended to it in any case.
  CHECK(refusal(json.dump()) == "accepted");
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {{"type", "Sequence"}};
  json["pre_tokenizer"]["pretokenizers"] =
      nlohmann::json::array({{{"type", "WhitespaceSplit"}}, metaspace});
  checkRefusal(refusal(json.dump()), "'first' after another step, expected it as the first step");
}

TEST_CASE("added tokens that are empty, duplicate, or equal once normalized are refused") {
  nlohmann::json json = smallTokenizer();
  json["added_tokens"] = nlohmann::json::array({addedToken(7, "")});
  checkRefusal(refusal(json.dump()), "added_tokens[0]: found an empty content");
  json["added_tokens"] = {addedToken(7, "x"), addedToken(7, "x")};
  checkRefusal(refusal(json.dump()), "added_tokens[1].id: found 7 for 'x', expected 8");
  json["added_tokens"][1]["id"] = 8;
  checkRefusal(refusal(json.dump()), "added_tokens[1]: found 'x' twice");
  json["normalizer"] = {{"type", "NFKC"}};
  json["added_tokens"] = {addedToken(7, "x"), addedToken(8, "ｘ")};
  CHECK(refusal(json.dump()) == "accepted");
  json["added_tokens"][0]["normalized"] = true;
  json["added_tokens"][1]["normalized"] = true;
  checkRefusal(refusal(json.dump()), "added tokens 7 and 8 are both 'x' when normalized");
}

TEST_CASE("text that is not one JSON document is refused with the place of the error") {
  checkRefusal(refusal(""), "found broken JSON");
  checkRefusal(refusal("{\"version\": \"1.0\","), "line 1, column");
  checkRefusal(refusal("{} {}"), "found broken JSON");
  checkRefusal(refusal("{\"a\xFF\": 1}"), "invalid string");
  checkRefusal(refusal("[]"), "found an array, expected an object");
}

TEST_CASE("a duplicate name in one object is refused, since one of the two would be lost") {
  checkRefusal(refusal(R"({"model": {"vocab": {"a": 0, "a": 1}}})"), "found the name 'a' twice");
  // The same name in two objects is not a duplicate.
  checkRefusal(refusal(R"({"model": {"type": "BPE"}, "decoder": {"type": "BPE"}})"), "model.vocab");
}

TEST_CASE("nesting deeper than any tokenizer needs is refused") {
  checkRefusal(refusal(std::string(1000000, '[')), "found");
  checkRefusal(refusal(std::string(100, '[') + std::string(100, ']')),
               "nested deeper than 32 levels");
}

TEST_CASE("both spellings of merges are equivalent, and version lines are skipped") {
  nlohmann::json json = smallTokenizer();
  Result<TokenizerModel> mixed = parseTokenizerJson(json.dump(), "x");
  json["model"]["merges"] = {"#version: 0.2", "a b", "ab c"};
  Result<TokenizerModel> texts = parseTokenizerJson(json.dump(), "x");
  json["model"]["merges"] = nlohmann::json::parse(R"([["a", "b"], ["ab", "c"]])");
  Result<TokenizerModel> pairs = parseTokenizerJson(json.dump(), "x");
  REQUIRE((mixed.isOk() && texts.isOk() && pairs.isOk()));
  CHECK(*texts == *mixed);
  CHECK(*pairs == *mixed);
  CHECK(mixed->merges == std::vector<TokenMerge>{{0, 1, 3}, {3, 2, 4}});
}

TEST_CASE("tokens with a space merge if the merges are pairs") {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"] = {{"a", 0}, {" ", 1}, {"a ", 2}};
  json["model"]["merges"] = nlohmann::json::parse(R"([["a", " "]])");
  CHECK(load(json).encode("a a") == Ids{2, 0});
}

TEST_CASE("Metaspace's older spelling means always or never") {
  nlohmann::json json = smallTokenizer();
  json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"str_rep", "_"}};
  CHECK(load(json).encode("a a") == Ids{5, 0, 5, 0});
  json["pre_tokenizer"]["add_prefix_space"] = false;
  CHECK(load(json).encode("a a") == Ids{0, 5, 0});
}

TEST_CASE("truncation and padding are ignored") {
  nlohmann::json json = smallTokenizer();
  json["truncation"] = {{"max_length", 1}};
  json["padding"] = {{"length", 99}};
  CHECK(load(json).encode("abc") == Ids{4});
}

TEST_CASE("more steps than any tokenizer has are refused, since each calls the next one") {
  const nlohmann::json step = {{"type", "Split"},
                               {"pattern", {{"String", "x"}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
  nlohmann::json many = smallTokenizer();
  many["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", std::vector<nlohmann::json>(64, step)}};
  CHECK(refusal(many.dump()) == "accepted");
  many["pre_tokenizer"]["pretokenizers"].push_back(step);
  CHECK(refusal(many.dump()).find("pre_tokenizer: found 65 steps, expected at most 64") !=
        std::string::npos);
  nlohmann::json prepends = smallTokenizer();
  prepends["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers", std::vector<nlohmann::json>(65, {{"type", "Prepend"}, {"prepend", "x"}})}};
  CHECK(refusal(prepends.dump()).find("normalizer: found 65 steps, expected at most 64") !=
        std::string::npos);
}
