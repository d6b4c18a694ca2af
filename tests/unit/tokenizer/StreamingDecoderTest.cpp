#include "tests/unit/support/CountAllocations.h"
#include "tests/unit/tokenizer/TestTokenizers.h"

using namespace moert;

namespace {

// The decoder list of Llama-like files with a vocabulary of a few words and all bytes.
nlohmann::json llamaLike() {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"] = {{"▁a", 0}, {"▁", 1}, {"b", 2}, {"<s>", 3}};
  json["model"]["merges"] = nlohmann::json::array();
  json["model"]["byte_fallback"] = true;
  const char *digits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    std::string token = "<0x" + std::string(1, digits[byte / 16]) + digits[byte % 16] + ">";
    json["model"]["vocab"][token] = 4 + byte;
  }
  json["decoder"] = nlohmann::json::parse(R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  return json;
}

int32_t byteId(int byte) {
  return 4 + byte;
}

std::vector<std::string> feedAll(const Tokenizer &tokenizer, const Ids &ids) {
  StreamingDecoder decoder(tokenizer, true);
  std::vector<std::string> parts;
  for (int32_t id : ids)
    parts.emplace_back(decoder.feed(id));
  parts.emplace_back(decoder.flush());
  return parts;
}

using Parts = std::vector<std::string>;

} // namespace

TEST_CASE("the leading space is removed from the first text only") {
  LoadedTokenizer loaded = load(llamaLike());
  CHECK(feedAll(loaded.tokenizer, {0, 0, 1, 2}) == Parts{"a", " a", " ", "b", ""});
  CHECK(feedAll(loaded.tokenizer, {1, 1, 2}) == Parts{"", " ", "b", ""});
}

TEST_CASE("a character of byte tokens is returned with its last byte") {
  LoadedTokenizer loaded = load(llamaLike());
  CHECK(feedAll(loaded.tokenizer, {2, byteId(0xC3), byteId(0xA9), 2}) ==
        Parts{"b", "", "é", "b", ""});
  CHECK(feedAll(loaded.tokenizer, {byteId('\n'), byteId('\n')}) == Parts{"\n", "\n", ""});
  CHECK(feedAll(loaded.tokenizer, {byteId(0xF0), byteId(0x9F), byteId(0x98), byteId(0x80)}) ==
        Parts{"", "", "", "😀", ""});
}

TEST_CASE("from the first invalid byte of a row on, each byte token is one U+FFFD") {
  LoadedTokenizer loaded = load(llamaLike());
  CHECK(feedAll(loaded.tokenizer, {byteId(0xC3), byteId('x'), byteId('y'), 2, byteId('y')}) ==
        Parts{"", "��", "�", "b", "y", ""});
  CHECK(feedAll(loaded.tokenizer, {2, byteId(0xE4), byteId(0xBD)}) == Parts{"b", "", "", "��"});
}

TEST_CASE("returned characters stay even if their row of byte tokens becomes invalid") {
  LoadedTokenizer loaded = load(llamaLike());
  const Ids ids = {byteId('x'), byteId(0xFF), 2};
  CHECK(feedAll(loaded.tokenizer, ids) == Parts{"x", "�", "b", ""});
  CHECK(loaded.tokenizer.decode(ids, true) == "��b"); // As the reference package.
}

TEST_CASE("the valid characters of a row of byte tokens are one token for the decoders after it") {
  nlohmann::json json = llamaLike();
  json["decoder"] = nlohmann::json::parse(R"({"type": "Sequence", "decoders": [
    {"type": "ByteFallback"}, {"type": "Replace", "pattern": {"String": "xy"}, "content": "+"},
    {"type": "Strip", "content": "z", "start": 1, "stop": 0}]})");
  LoadedTokenizer loaded = load(json);
  const Ids ids = {byteId('z'), byteId('z'), byteId('x'), byteId('y'), 2};
  CHECK(feedAll(loaded.tokenizer, ids) == Parts{"", "z", "", "+", "b", ""});
  CHECK(loaded.tokenizer.decode(ids, true) == "z+b");
}

TEST_CASE("a byte-level decoder holds back only the start of a character") {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"] = {{"Ã", 0}, {"©", 1}, {"xÃ", 2}, {"y", 3}};
  json["model"]["merges"] = nlohmann::json::array();
  json["decoder"] = {{"type", "ByteLevel"}};
  LoadedTokenizer loaded = load(json);
  CHECK(feedAll(loaded.tokenizer, {2, 1, 3}) == Parts{"x", "é", "y", ""});
  CHECK(feedAll(loaded.tokenizer, {0, 3}) == Parts{"", "�y", ""});
  CHECK(feedAll(loaded.tokenizer, {0}) == Parts{"", "�"});
}

TEST_CASE("after a flush the decoder starts a new text") {
  LoadedTokenizer loaded = load(llamaLike());
  StreamingDecoder decoder(loaded.tokenizer, true);
  for (int i = 0; i < 2; ++i) {
    std::string text(decoder.feed(0));
    text += decoder.flush();
    CHECK(text == "a");
  }
}

TEST_CASE("decoding allocates nothing after the longest text") {
  nlohmann::json json = llamaLike();
  const int32_t kLong = 4 + 256;
  json["model"]["vocab"]["▁a-word-that-is-longer-than-a-short-string"] = kLong;
  LoadedTokenizer loaded = load(json);
  StreamingDecoder decoder(loaded.tokenizer, true);
  const Ids ids = {kLong, byteId(0xC3), byteId(0xA9), 2, byteId('x'), byteId(0xC3), kLong, 1, 0};
  uint64_t atStart = allocationsSoFar(), warm = 0;
  size_t bytes = 0;
  for (int round = 0; round < 3; ++round) {
    warm = round == 1 ? allocationsSoFar() : warm;
    for (int32_t id : ids)
      bytes += decoder.feed(id).size();
  }
  CHECK(allocationsSoFar() == warm);
  CHECK(warm > atStart); // The count works.
  CHECK(bytes > 6 * 40);
}

TEST_CASE("holdsText reports whether text is held back") {
  LoadedTokenizer loaded = load(llamaLike());
  StreamingDecoder decoder(loaded.tokenizer, true);
  CHECK_FALSE(decoder.holdsText());
  decoder.feed(byteId(0xC3));
  CHECK(decoder.holdsText());
  decoder.feed(byteId(0xA9));
  CHECK_FALSE(decoder.holdsText());
  decoder.feed(byteId(0xC3));
  decoder.flush();
  CHECK_FALSE(decoder.holdsText());
}

TEST_CASE("special tokens are decoded or skipped as requested") {
  nlohmann::json json = llamaLike();
  nlohmann::json begin = addedToken(3, "<s>");
  begin["special"] = true;
  json["added_tokens"].push_back(begin);
  LoadedTokenizer loaded = load(json);
  CHECK(loaded.tokenizer.decode(Ids{3, 0, 2}, true) == "ab");
  CHECK(loaded.tokenizer.decode(Ids{3, 0, 2}, false) == "<s> ab");
}

TEST_CASE("stripping and replacing work across tokens once these are fused") {
  nlohmann::json json = llamaLike();
  json["decoder"] = nlohmann::json::parse(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
    {"type": "Replace", "pattern": {"String": "b▁b"}, "content": "+"},
    {"type": "Strip", "content": "b", "start": 0, "stop": 2}]})");
  LoadedTokenizer loaded = load(json);
  CHECK(feedAll(loaded.tokenizer, {2, 1, 2, 0}) == Parts{"", "", "+", "▁a", ""});
  CHECK(loaded.tokenizer.decode(Ids{0, 2, 2, 2}, true) == "▁ab");
  CHECK(loaded.tokenizer.decode(Ids{0, 2, 1}, true) == "▁ab▁");
}

TEST_CASE("without a decoder the tokens are joined by spaces") {
  nlohmann::json json = smallTokenizer();
  json["decoder"] = nullptr;
  CHECK(load(json).tokenizer.decode(Ids{0, 1, 3}, true) == "a b ab");
}
