// Any bytes as text for tokenizers that have a token for every byte: decoding gives the text back,
// at once and id by id.
#include "runtime/text/tokenizer/ByteAlphabet.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/text/tokenizer/TokenizerTable.h"

#include <cstdlib>

namespace {

using namespace moert;

struct Loaded {
  std::vector<std::byte> table;
  Tokenizer tokenizer;
};

// All bytes, a few merges or longer tokens with scores, one added token; cut by a pattern, or by
// GPT-2's if it is empty.
Loaded byteLevel(const std::string &pattern, ModelKind kind = ModelKind::kBpe) {
  TokenizerModel model;
  model.pipeline.model = kind;
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    appendCodePoint(byteToAlphabet(static_cast<unsigned char>(byte)), token);
    model.tokens.push_back(token);
  }
  constexpr std::pair<int32_t, int32_t> kMerges[] = {{0xC3, 0xA9}, {' ', ' '}, {'a', 'a'}};
  for (auto [left, right] : kMerges) {
    auto merged = static_cast<int32_t>(model.tokens.size());
    if (kind == ModelKind::kBpe)
      model.merges.push_back({left, right, merged});
    model.tokens.push_back(model.tokens[static_cast<size_t>(left)] +
                           model.tokens[static_cast<size_t>(right)]);
  }
  if (kind == ModelKind::kUnigram)
    for (size_t id = 0; id < model.tokens.size(); ++id)
      model.scores.push_back(-static_cast<double>(id % 7));
  AddedToken added;
  added.id = static_cast<int32_t>(model.tokens.size());
  model.tokens.push_back("<|x|>");
  model.addedTokens.push_back(added);
  if (!pattern.empty()) {
    PreTokenizerStep split;
    split.kind = PreTokenizerStep::Kind::kSplitRegex;
    split.pattern = pattern;
    model.pipeline.preTokenizers.push_back(split);
  }
  PreTokenizerStep bytes;
  bytes.useRegex = pattern.empty();
  model.pipeline.preTokenizers.push_back(bytes);
  model.pipeline.decoders.push_back({});
  model.pipeline.hasDecoder = true;
  std::vector<std::byte> table = writeTokenizerTable(model);
  Result<Tokenizer> tokenizer = Tokenizer::load(table);
  if (!tokenizer.isOk())
    std::abort();
  return {std::move(table), std::move(*tokenizer)};
}

const Loaded &pick(uint8_t choice) {
  static const Loaded kTokenizers[] = {
      byteLevel(""),
      byteLevel(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
      byteLevel(
          R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
          R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
      byteLevel(R"(\s+$)"),
      byteLevel(R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
                R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re)?|\p{N}{1,3}+)"
                R"(| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)"),
      byteLevel(R"( ?[^(\s|[.,!?])]+)", ModelKind::kUnigram),
  };
  return kTokenizers[choice % std::size(kTokenizers)];
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const Tokenizer &tokenizer = pick(data[0]).tokenizer;
  std::string_view text(reinterpret_cast<const char *>(data) + 1, size - 1);
  std::string expected;
  appendLossyUtf8(text, true, expected);
  Result<std::vector<int32_t>> ids = tokenizer.encode(text, true);
  if (!ids.isOk() || tokenizer.decode(*ids, false) != expected)
    std::abort();
  StreamingDecoder decoder(tokenizer, false);
  std::string streamed;
  for (int32_t id : *ids) {
    std::string_view part = decoder.feed(id);
    if (!isValidUtf8(part))
      std::abort();
    streamed += part;
  }
  streamed += decoder.flush();
  if (streamed != expected)
    std::abort();
  return 0;
}
