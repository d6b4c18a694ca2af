// Random ids through the streaming decoder of every kind of tokenizer, compared with decode().
#include "runtime/base/RandomStream.h"
#include "runtime/base/Utf8.h"
#include "tests/unit/tokenizer/TestTokenizers.h"

#include <algorithm>

using namespace moert;

namespace {

/// The byte of a token <0xHH>, or -1.
int byteOf(const Tokenizer &tokenizer, int32_t id) {
  const std::string token(tokenizer.contentOf(id));
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>')
    return -1;
  return std::stoi(token.substr(3, 2), nullptr, 16);
}

/// The ids of the byte tokens, by byte; empty if the decoder does not turn them into bytes.
Ids byteIdsOf(const std::string &kind, const Tokenizer &tokenizer) {
  Ids ids;
  if (nlohmann::json::parse(readTestFile(kind + ".json"))["decoder"].dump().find("ByteFallback") ==
      std::string::npos)
    return ids;
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    ids.push_back(tokenizer.idOf(name).value());
  }
  return ids;
}

/// Random ids, often with byte tokens that form characters or parts of them.
Ids randomIds(const Tokenizer &tokenizer, const Ids &byteIds, RandomStream &random) {
  static const std::string_view kBytes[] = {"\n",   "a",    "é",        "你",  "😀",
                                            "\xE4", "\xBD", "\xF0\x9F", "\xFF"};
  Ids ids;
  const size_t length = random.nextBelow(24);
  while (ids.size() < length) {
    if (!byteIds.empty() && random.nextBelow(3) > 0) {
      for (char byte : kBytes[random.nextBelow(std::size(kBytes))])
        ids.push_back(byteIds[static_cast<unsigned char>(byte)]);
    } else {
      // Two beyond the vocabulary, which have no token.
      ids.push_back(static_cast<int32_t>(
          random.nextBelow(static_cast<uint32_t>(tokenizer.vocabularySize()) + 2)));
    }
  }
  return ids;
}

struct Streamed {
  std::vector<std::string> parts; // One for each id and one for the flush.
  std::string text;
};

Streamed stream(const Tokenizer &tokenizer, const Ids &ids, bool skipSpecial) {
  StreamingDecoder decoder(tokenizer, skipSpecial);
  Streamed streamed;
  for (int32_t id : ids)
    streamed.parts.emplace_back(decoder.feed(id));
  streamed.parts.emplace_back(decoder.flush());
  for (const std::string &part : streamed.parts)
    streamed.text += part;
  return streamed;
}

/// A row of byte tokens that is valid at first and invalid later is cut there by a token that shows
/// `mark`, so that decode() keeps the valid characters.
Ids cutAtInvalidBytes(const Tokenizer &tokenizer, const Ids &ids, int32_t mark) {
  Ids cut;
  for (size_t begin = 0, end; begin < ids.size(); begin = end) {
    std::string bytes;
    for (end = begin; end < ids.size() && byteOf(tokenizer, ids[end]) >= 0; ++end)
      bytes += static_cast<char>(byteOf(tokenizer, ids[end]));
    if (end == begin) {
      cut.push_back(ids[end++]);
      continue;
    }
    size_t valid = 0;
    while (valid < bytes.size() &&
           nextUtf8(std::string_view(bytes).substr(valid)).kind == Utf8Kind::kValid)
      valid += nextUtf8(std::string_view(bytes).substr(valid)).length;
    cut.insert(cut.end(), ids.begin() + begin, ids.begin() + begin + valid);
    if (valid > 0 && valid < bytes.size())
      cut.push_back(mark);
    cut.insert(cut.end(), ids.begin() + begin + valid, ids.begin() + end);
  }
  return cut;
}

std::string without(std::string text, const std::string &removed) {
  for (size_t at; (at = text.find(removed)) != std::string::npos;)
    text.erase(at, removed.size());
  return text;
}

constexpr int kRounds = 1500;

} // namespace

TEST_CASE("the parts of random ids are whole characters and together equal decode()") {
  size_t cuts = 0;
  for (std::string kind : kTokenizerKinds) {
    CAPTURE(kind);
    LoadedTokenizer loaded = loadJson(readTestFile(kind + ".json"));
    const Tokenizer &tokenizer = loaded.tokenizer;
    const Ids byteIds = byteIdsOf(kind, tokenizer);
    RandomStream random(26);
    for (int round = 0; round < kRounds; ++round) {
      CAPTURE(round);
      const bool skipSpecial = round % 2 == 1;
      Ids ids = randomIds(tokenizer, byteIds, random);
      const Streamed streamed = stream(tokenizer, ids, skipSpecial);
      for (const std::string &part : streamed.parts)
        CHECK(isValidUtf8(part));
      if (byteIds.empty()) {
        CHECK(streamed.text == tokenizer.decode(ids, skipSpecial));
        continue;
      }
      // Special tokens that are skipped do not end a row.
      if (skipSpecial)
        std::erase_if(ids, [&](int32_t id) { return tokenizer.isSpecial(id); });
      const int32_t mark = tokenizer.idOf("</s>").value();
      const Ids cut = cutAtInvalidBytes(tokenizer, ids, mark);
      cuts += cut.size() - ids.size();
      CHECK(without(streamed.text, "</s>") == without(tokenizer.decode(cut, false), "</s>"));
      if (cut == ids)
        CHECK(streamed.text == tokenizer.decode(ids, false));
    }
  }
  CHECK(cuts > 100);
}

TEST_CASE("a byte token's text does not wait for a later token if its character is complete") {
  LoadedTokenizer loaded = loadJson(readTestFile("llama.json"));
  const Tokenizer &tokenizer = loaded.tokenizer;
  const Ids newlines(400, tokenizer.idOf("<0x0A>").value());
  const Streamed streamed = stream(tokenizer, newlines, true);
  CHECK(std::count(streamed.parts.begin(), streamed.parts.end(), "\n") == 400);
}
