#include "runtime/text/tokenizer/Tokenizer.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/FloatMode.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/tokenizer/AddedTokenMatcher.h"
#include "runtime/text/tokenizer/BpeModel.h"
#include "runtime/text/tokenizer/DecoderChain.h"
#include "runtime/text/tokenizer/Normalizer.h"
#include "runtime/text/tokenizer/PreTokenizer.h"
#include "runtime/text/tokenizer/TokenBytes.h"
#include "runtime/text/tokenizer/TokenizerTable.h"
#include "runtime/text/tokenizer/UnigramModel.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace moert {

/// An added token that normalization changes. Decoders get the changed content, as in the reference
/// package, because a byte-level decoder could not decode the original.
struct NormalizedContent {
  int32_t id;
  std::string content;
};

struct TokenizerState {
  TokenizerTable table;
  Normalizer normalizer;
  AddedTokenMatcher rawTokens;
  AddedTokenMatcher normalizedTokens;
  PreTokenizer preTokenizer;
  std::variant<BpeModel, UnigramModel> model;
  std::vector<int32_t> specialIds;                   // Ascending.
  std::vector<NormalizedContent> normalizedContents; // By id.
  size_t modelRows;

  /// The content of an id for the decoders.
  std::string_view contentOf(int32_t id) const {
    auto found = std::lower_bound(
        normalizedContents.begin(), normalizedContents.end(), id,
        [](const NormalizedContent &candidate, int32_t wanted) { return candidate.id < wanted; });
    if (found != normalizedContents.end() && found->id == id)
      return found->content;
    return table.vocabulary.token(id);
  }
};

namespace {

Result<std::vector<NormalizedContent>> findNormalizedContents(const TokenizerTable &table,
                                                              const Normalizer &normalizer) {
  RegexScratch scratch;
  std::vector<NormalizedContent> contents;
  for (const AddedToken &token : table.addedTokens) {
    if (!token.normalized)
      continue;
    std::string content(table.vocabulary.token(token.id));
    MOERT_RETURN_IF_ERROR(normalizer.apply(content, scratch));
    if (content != table.vocabulary.token(token.id))
      contents.push_back({token.id, std::move(content)});
  }
  std::sort(contents.begin(), contents.end(),
            [](const auto &a, const auto &b) { return a.id < b.id; });
  return contents;
}

// Metaspace 'first' depends on whether a piece was at the front of the user's text. If a normalizer
// may have changed text there, the result in the reference package depends on its internal state.
Status checkFrontIsKept(const TokenizerPipeline &pipeline) {
  for (const PreTokenizerStep &step : pipeline.preTokenizers) {
    if (step.kind != PreTokenizerStep::Kind::kMetaspace ||
        step.prependScheme != PrependScheme::kFirst)
      continue;
    for (const NormalizerStep &normalizer : pipeline.normalizers)
      if (mayTakeFront(normalizer, step.pattern))
        return invalidInput(
            "pre_tokenizer: found Metaspace with prepend_scheme 'first' after a normalizer "
            "that removes or replaces leading text, expected another scheme");
  }
  return {};
}

// One call of encode(): the state that pieces of text need on their way to ids.
class Encoding final : public PieceSink {
public:
  explicit Encoding(const TokenizerState &tokenizerState) : state(tokenizerState) {}

  Status addText(std::string_view text) {
    if (text.empty())
      return {};
    MOERT_ASSIGN_OR_RETURN(std::vector<TextSegment> segments, state.rawTokens.split(text, regex));
    for (const TextSegment &segment : segments) {
      if (segment.id >= 0)
        ids.push_back(segment.id);
      else
        MOERT_RETURN_IF_ERROR(addRawSegment(text.substr(segment.begin, segment.end - segment.begin),
                                            segment.begin == 0));
    }
    return {};
  }

  Status take(std::string_view piece) override {
    if (piece.size() >= UINT32_MAX)
      return invalidInput("found a piece of ", piece.size(), " bytes, expected less than 4 GiB");
    if (const auto *model = std::get_if<UnigramModel>(&state.model))
      return model->encode(piece, unigram, ids);
    return std::get<BpeModel>(state.model).encode(piece, bpe, ids);
  }

  std::vector<int32_t> ids;

private:
  Status addRawSegment(std::string_view text, bool atStart) {
    if (state.normalizer.isEmpty())
      return addNormalized(text, atStart);
    std::string normalized(text);
    MOERT_RETURN_IF_ERROR(state.normalizer.apply(normalized, regex));
    return addNormalized(normalized, atStart);
  }

  Status addNormalized(std::string_view text, bool atStart) {
    if (text.empty())
      return {};
    MOERT_ASSIGN_OR_RETURN(std::vector<TextSegment> segments,
                           state.normalizedTokens.split(text, regex));
    for (const TextSegment &segment : segments) {
      if (segment.id >= 0)
        ids.push_back(segment.id);
      else
        MOERT_RETURN_IF_ERROR(
            state.preTokenizer.run(text.substr(segment.begin, segment.end - segment.begin),
                                   atStart && segment.begin == 0, regex, *this));
    }
    return {};
  }

  const TokenizerState &state;
  RegexScratch regex;
  BpeScratch bpe;
  UnigramScratch unigram;
};

std::variant<BpeModel, UnigramModel> makeModel(const TokenizerTable &table) {
  if (table.pipeline.model == ModelKind::kUnigram)
    return UnigramModel(table.vocabulary, table.scores, table.pipeline);
  return BpeModel(table.vocabulary, table.merges, table.pipeline);
}

/// Real tokenizers have a few steps of each kind. Every step of a pre-tokenizer calls the next one,
/// and every normalizer may grow a text.
Status checkStepCounts(const TokenizerPipeline &pipeline) {
  constexpr size_t kMostSteps = 64;
  for (const auto &[name, count] : {std::pair("normalizer", pipeline.normalizers.size()),
                                    std::pair("pre_tokenizer", pipeline.preTokenizers.size()),
                                    std::pair("decoder", pipeline.decoders.size())})
    if (count > kMostSteps)
      return invalidInput(name, ": found ", count, " steps, expected at most ", kMostSteps);
  return {};
}

} // namespace

Result<Tokenizer> Tokenizer::load(std::span<const std::byte> bytes, size_t modelRows) {
  MOERT_ASSIGN_OR_RETURN(TokenizerTable table, readTokenizerTable(bytes));
  MOERT_RETURN_IF_ERROR(checkStepCounts(table.pipeline));
  MOERT_RETURN_IF_ERROR(checkFrontIsKept(table.pipeline));
  MOERT_RETURN_IF_ERROR(checkDecoders(table.pipeline.decoders));
  MOERT_ASSIGN_OR_RETURN(Normalizer normalizer,
                         Normalizer::make(std::move(table.pipeline.normalizers)));
  MOERT_ASSIGN_OR_RETURN(AddedTokenMatcher rawTokens, AddedTokenMatcher::make(table, nullptr));
  MOERT_ASSIGN_OR_RETURN(AddedTokenMatcher normalizedTokens,
                         AddedTokenMatcher::make(table, &normalizer));
  MOERT_ASSIGN_OR_RETURN(PreTokenizer preTokenizer,
                         PreTokenizer::make(table.pipeline.preTokenizers));
  std::variant<BpeModel, UnigramModel> model = makeModel(table);
  std::vector<int32_t> specialIds;
  for (const AddedToken &token : table.addedTokens)
    if (token.special)
      specialIds.push_back(token.id);
  std::sort(specialIds.begin(), specialIds.end());
  MOERT_ASSIGN_OR_RETURN(std::vector<NormalizedContent> normalizedContents,
                         findNormalizedContents(table, normalizer));
  return Tokenizer(std::make_unique<TokenizerState>(
      TokenizerState{std::move(table), std::move(normalizer), std::move(rawTokens),
                     std::move(normalizedTokens), std::move(preTokenizer), model,
                     std::move(specialIds), std::move(normalizedContents), modelRows}));
}

Tokenizer::Tokenizer(std::unique_ptr<TokenizerState> loadedState) : state(std::move(loadedState)) {}
Tokenizer::Tokenizer(Tokenizer &&) noexcept = default;
Tokenizer &Tokenizer::operator=(Tokenizer &&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view utf8, bool addSpecialTokens) const {
  const DefaultFloatMode mode; // Scores of pieces are summed.
  constexpr size_t kMaxTextBytes = size_t{1} << 30;
  if (utf8.size() > kMaxTextBytes)
    return invalidInput("found a text of ", utf8.size(), " bytes, expected at most ",
                        kMaxTextBytes);
  std::string repaired;
  if (!isValidUtf8(utf8)) {
    appendLossyUtf8(utf8, true, repaired);
    utf8 = repaired;
  }
  const TokenizerPipeline &pipeline = state->table.pipeline;
  Encoding encoding(*state);
  if (addSpecialTokens)
    encoding.ids = pipeline.prefixIds;
  MOERT_RETURN_IF_ERROR(encoding.addText(utf8));
  if (addSpecialTokens)
    encoding.ids.insert(encoding.ids.end(), pipeline.suffixIds.begin(), pipeline.suffixIds.end());
  for (int32_t id : encoding.ids)
    if (static_cast<size_t>(id) >= state->modelRows)
      return invalidInput("token ", id, " \"", excerpt(contentOf(id)),
                          "\" is in the text, the model has ", state->modelRows,
                          " tokens and the tokenizer ", vocabularySize(),
                          ": tokens were added to the tokenizer alone, or it is of another model");
  return std::move(encoding.ids);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skipSpecialTokens) const {
  StreamingDecoder decoder(*this, skipSpecialTokens,
                           std::make_unique<DecoderChain>(state->table.pipeline, ByteRows::kWhole));
  std::string text;
  for (int32_t id : ids)
    text += decoder.feed(id);
  return text += decoder.flush();
}

size_t Tokenizer::vocabularySize() const {
  return state->table.vocabulary.size();
}

uint64_t Tokenizer::memoryBytes() const {
  const TokenizerTable &table = state->table;
  uint64_t contentBytes = 0;
  for (const NormalizedContent &changed : state->normalizedContents)
    contentBytes += sizeof(NormalizedContent) + changed.content.capacity();
  return sizeof(TokenizerState) + contentBytes + table.addedTokens.capacity() * sizeof(AddedToken) +
         state->specialIds.capacity() * sizeof(int32_t) + state->normalizer.memoryBytes() +
         state->rawTokens.memoryBytes() + state->normalizedTokens.memoryBytes() +
         state->preTokenizer.memoryBytes();
}

std::optional<int32_t> Tokenizer::idOf(std::string_view token) const {
  const VocabularyView &vocabulary = state->table.vocabulary;
  for (const AddedToken &added : state->table.addedTokens)
    if (vocabulary.token(added.id) == token)
      return added.id;
  return vocabulary.find(token);
}

bool Tokenizer::isSpecial(int32_t id) const {
  return std::binary_search(state->specialIds.begin(), state->specialIds.end(), id);
}

std::string_view Tokenizer::contentOf(int32_t id) const {
  const VocabularyView &vocabulary = state->table.vocabulary;
  return vocabulary.hasId(id) ? vocabulary.token(id) : std::string_view();
}

std::string Tokenizer::bytesOf(int32_t id) const {
  return tokenBytes(state->table.pipeline, contentOf(id));
}

StreamingDecoder::StreamingDecoder(const Tokenizer &source, bool skipSpecial)
    : StreamingDecoder(
          source, skipSpecial,
          std::make_unique<DecoderChain>(source.parts().table.pipeline, ByteRows::kStreamed)) {}
StreamingDecoder::StreamingDecoder(const Tokenizer &source, bool skipSpecial,
                                   std::unique_ptr<DecoderChain> decoders)
    : tokenizer(&source), chain(std::move(decoders)), skipSpecialTokens(skipSpecial) {}
StreamingDecoder::StreamingDecoder(StreamingDecoder &&) noexcept = default;
StreamingDecoder &StreamingDecoder::operator=(StreamingDecoder &&) noexcept = default;
StreamingDecoder::~StreamingDecoder() = default;

std::string_view StreamingDecoder::feed(int32_t id) {
  const VocabularyView &vocabulary = tokenizer->parts().table.vocabulary;
  text.clear();
  bool isSkipped = skipSpecialTokens && tokenizer->isSpecial(id);
  if (vocabulary.hasId(id) && !vocabulary.token(id).empty() && !isSkipped)
    chain->take(tokenizer->parts().contentOf(id), text);
  return text;
}

std::string_view StreamingDecoder::flush() {
  text.clear();
  chain->finish(text);
  return text;
}

bool StreamingDecoder::holdsText() const {
  return chain->holdsText();
}

} // namespace moert
