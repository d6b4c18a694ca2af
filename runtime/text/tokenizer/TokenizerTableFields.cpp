#include "runtime/text/tokenizer/TokenizerTableFields.h"

#include "runtime/base/Excerpt.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/tokenizer/TokenizerTable.h"

namespace moert {
namespace {

enum AddedFlag : uint32_t {
  kInModel = 1,
  kSingleWord = 2,
  kStripLeft = 4,
  kStripRight = 8,
  kNormalized = 16,
  kSpecial = 32,
  kAllFlags = 63,
};

uint32_t flagsOf(const AddedToken &token) {
  return (token.inModel ? kInModel : 0U) | (token.singleWord ? kSingleWord : 0U) |
         (token.stripLeft ? kStripLeft : 0U) | (token.stripRight ? kStripRight : 0U) |
         (token.normalized ? kNormalized : 0U) | (token.special ? kSpecial : 0U);
}

template <typename Enum>
Status readEnum(uint8_t stored, Enum last, std::string_view what, Enum &value) {
  if (stored > static_cast<uint8_t>(last))
    return invalidInput("tokenizer table: found ", what, " ", unsigned{stored}, ", expected 0 to ",
                        unsigned{static_cast<uint8_t>(last)});
  value = static_cast<Enum>(stored);
  return {};
}

// A missing text is read as an empty one.
Status readText(const flatbuffers::String *stored, std::string_view what, std::string &text) {
  text = stored ? stored->str() : "";
  if (!isValidUtf8(text))
    return invalidInput("tokenizer table: found broken UTF-8 in a ", what);
  return {};
}

bool isOneCharacter(std::string_view text) {
  return !text.empty() && utf8Length(text[0]) == text.size();
}

Status expectOneCharacter(std::string_view text, std::string_view what) {
  if (!isOneCharacter(text))
    return invalidInput("tokenizer table: found '", excerpt(text), "' as the character of ", what,
                        ", expected one character");
  return {};
}

Status expectText(std::string_view text, std::string_view what) {
  if (text.empty())
    return invalidInput("tokenizer table: found an empty pattern of ", what);
  return {};
}

Result<NormalizerStep> normalizerOf(const tokenizer::Normalizer &stored) {
  using Kind = NormalizerStep::Kind;
  NormalizerStep step;
  MOERT_RETURN_IF_ERROR(readEnum(stored.kind(), Kind::kPrecompiled, "normalizer", step.kind));
  MOERT_RETURN_IF_ERROR(readText(stored.pattern(), "normalizer", step.pattern));
  MOERT_RETURN_IF_ERROR(readText(stored.content(), "normalizer", step.content));
  if (step.kind == Kind::kReplace)
    MOERT_RETURN_IF_ERROR(expectText(step.pattern, "Replace"));
  step.left = stored.left();
  step.right = stored.right();
  if (stored.charsmap())
    step.charsmap.assign(stored.charsmap()->begin(), stored.charsmap()->end());
  return step;
}

Result<PreTokenizerStep> preTokenizerOf(const tokenizer::PreTokenizer &stored) {
  using Kind = PreTokenizerStep::Kind;
  PreTokenizerStep step;
  MOERT_RETURN_IF_ERROR(
      readEnum(stored.kind(), Kind::kWhitespaceSplit, "pre-tokenizer", step.kind));
  MOERT_RETURN_IF_ERROR(readText(stored.pattern(), "pre-tokenizer", step.pattern));
  MOERT_RETURN_IF_ERROR(
      readEnum(stored.behavior(), SplitBehavior::kContiguous, "split behavior", step.behavior));
  MOERT_RETURN_IF_ERROR(readEnum(stored.prepend_scheme(), PrependScheme::kNever, "prepend scheme",
                                 step.prependScheme));
  if (step.kind == Kind::kMetaspace)
    MOERT_RETURN_IF_ERROR(expectOneCharacter(step.pattern, "Metaspace"));
  if (step.kind == Kind::kSplitText)
    MOERT_RETURN_IF_ERROR(expectText(step.pattern, "Split"));
  step.invert = stored.invert();
  step.addPrefixSpace = stored.add_prefix_space();
  step.useRegex = stored.use_regex();
  step.individual = stored.individual();
  step.split = stored.split();
  return step;
}

Result<DecoderStep> decoderOf(const tokenizer::Decoder &stored) {
  using Kind = DecoderStep::Kind;
  DecoderStep step;
  MOERT_RETURN_IF_ERROR(readEnum(stored.kind(), Kind::kMetaspace, "decoder", step.kind));
  MOERT_RETURN_IF_ERROR(readText(stored.pattern(), "decoder", step.pattern));
  MOERT_RETURN_IF_ERROR(readText(stored.content(), "decoder", step.content));
  MOERT_RETURN_IF_ERROR(readEnum(stored.prepend_scheme(), PrependScheme::kNever, "prepend scheme",
                                 step.prependScheme));
  if (step.kind == Kind::kStrip || step.kind == Kind::kMetaspace)
    MOERT_RETURN_IF_ERROR(expectOneCharacter(step.pattern, "a decoder"));
  if (step.kind == Kind::kReplace)
    MOERT_RETURN_IF_ERROR(expectText(step.pattern, "Replace"));
  step.start = stored.start();
  step.stop = stored.stop();
  return step;
}

std::vector<flatbuffers::Offset<tokenizer::Normalizer>>
storeNormalizers(flatbuffers::FlatBufferBuilder &builder, const TokenizerPipeline &pipeline) {
  std::vector<flatbuffers::Offset<tokenizer::Normalizer>> stored;
  for (const NormalizerStep &step : pipeline.normalizers) {
    auto pattern = builder.CreateString(step.pattern);
    auto content = builder.CreateString(step.content);
    flatbuffers::Offset<flatbuffers::Vector<uint8_t>> charsmap;
    if (step.kind == NormalizerStep::Kind::kPrecompiled)
      charsmap = builder.CreateVector(reinterpret_cast<const uint8_t *>(step.charsmap.data()),
                                      step.charsmap.size());
    stored.push_back(tokenizer::CreateNormalizer(builder, static_cast<uint8_t>(step.kind), pattern,
                                                 content, step.left, step.right, charsmap));
  }
  return stored;
}

std::vector<flatbuffers::Offset<tokenizer::PreTokenizer>>
storePreTokenizers(flatbuffers::FlatBufferBuilder &builder, const TokenizerPipeline &pipeline) {
  std::vector<flatbuffers::Offset<tokenizer::PreTokenizer>> stored;
  for (const PreTokenizerStep &step : pipeline.preTokenizers) {
    auto pattern = builder.CreateString(step.pattern);
    stored.push_back(tokenizer::CreatePreTokenizer(
        builder, static_cast<uint8_t>(step.kind), pattern, static_cast<uint8_t>(step.behavior),
        step.invert, step.addPrefixSpace, step.useRegex, step.individual, step.split,
        static_cast<uint8_t>(step.prependScheme)));
  }
  return stored;
}

std::vector<flatbuffers::Offset<tokenizer::Decoder>>
storeDecoders(flatbuffers::FlatBufferBuilder &builder, const TokenizerPipeline &pipeline) {
  std::vector<flatbuffers::Offset<tokenizer::Decoder>> stored;
  for (const DecoderStep &step : pipeline.decoders) {
    auto pattern = builder.CreateString(step.pattern);
    auto content = builder.CreateString(step.content);
    stored.push_back(tokenizer::CreateDecoder(builder, static_cast<uint8_t>(step.kind), pattern,
                                              content, step.start, step.stop,
                                              static_cast<uint8_t>(step.prependScheme)));
  }
  return stored;
}

} // namespace

flatbuffers::Offset<tokenizer::Content> storeTable(flatbuffers::FlatBufferBuilder &builder,
                                                   const TableVocabulary &vocabulary,
                                                   const TokenizerModel &model) {
  const TokenizerPipeline &pipeline = model.pipeline;
  std::vector<tokenizer::Added> added;
  for (const AddedToken &token : model.addedTokens)
    added.emplace_back(token.id, flagsOf(token));
  auto addedTokens = builder.CreateVectorOfStructs(added);
  auto normalizers = builder.CreateVector(storeNormalizers(builder, pipeline));
  auto preTokenizers = builder.CreateVector(storePreTokenizers(builder, pipeline));
  auto decoders = builder.CreateVector(storeDecoders(builder, pipeline));
  auto prefixIds = builder.CreateVector(pipeline.prefixIds);
  auto suffixIds = builder.CreateVector(pipeline.suffixIds);

  tokenizer::ContentBuilder table(builder);
  bool isUnigram = pipeline.model == ModelKind::kUnigram;
  table.add_version(isUnigram ? kTokenizerTableVersion : 1);
  table.add_token_bytes(vocabulary.bytes);
  table.add_token_offsets(vocabulary.offsets);
  table.add_token_slots(vocabulary.slots);
  table.add_merges(vocabulary.merges);
  table.add_merge_slots(vocabulary.mergeSlots);
  table.add_added_tokens(addedTokens);
  table.add_normalizers(normalizers);
  table.add_pre_tokenizers(preTokenizers);
  table.add_decoders(decoders);
  table.add_has_decoder(pipeline.hasDecoder);
  table.add_prefix_ids(prefixIds);
  table.add_suffix_ids(suffixIds);
  table.add_byte_fallback(pipeline.byteFallback);
  table.add_fuse_unknown(pipeline.fuseUnknown);
  table.add_ignore_merges(pipeline.ignoreMerges);
  table.add_unknown_character(static_cast<uint8_t>(pipeline.unknownCharacter));
  table.add_unknown_id(pipeline.unknownId);
  if (isUnigram) {
    table.add_model(static_cast<uint8_t>(pipeline.model));
    table.add_scores(vocabulary.scores);
    table.add_sorted_ids(vocabulary.sortedIds);
  }
  return table.Finish();
}

Result<AddedToken> addedTokenOf(const tokenizer::Added &stored) {
  uint32_t flags = stored.flags();
  if (flags & ~uint32_t{kAllFlags})
    return invalidInput("tokenizer table: found flags ", flags, " of added token ", stored.id(),
                        ", expected at most ", uint32_t{kAllFlags});
  return AddedToken{stored.id(),
                    (flags & kInModel) != 0,
                    (flags & kSingleWord) != 0,
                    (flags & kStripLeft) != 0,
                    (flags & kStripRight) != 0,
                    (flags & kNormalized) != 0,
                    (flags & kSpecial) != 0};
}

Result<TokenizerPipeline> pipelineOf(const tokenizer::Content &table) {
  TokenizerPipeline pipeline;
  for (const tokenizer::Normalizer *stored : *table.normalizers()) {
    MOERT_ASSIGN_OR_RETURN(NormalizerStep step, normalizerOf(*stored));
    pipeline.normalizers.push_back(std::move(step));
  }
  for (const tokenizer::PreTokenizer *stored : *table.pre_tokenizers()) {
    MOERT_ASSIGN_OR_RETURN(PreTokenizerStep step, preTokenizerOf(*stored));
    pipeline.preTokenizers.push_back(std::move(step));
  }
  for (const tokenizer::Decoder *stored : *table.decoders()) {
    MOERT_ASSIGN_OR_RETURN(DecoderStep step, decoderOf(*stored));
    pipeline.decoders.push_back(std::move(step));
  }
  pipeline.hasDecoder = table.has_decoder();
  pipeline.prefixIds.assign(table.prefix_ids()->begin(), table.prefix_ids()->end());
  pipeline.suffixIds.assign(table.suffix_ids()->begin(), table.suffix_ids()->end());
  pipeline.byteFallback = table.byte_fallback();
  pipeline.fuseUnknown = table.fuse_unknown();
  pipeline.ignoreMerges = table.ignore_merges();
  MOERT_RETURN_IF_ERROR(readEnum(table.unknown_character(), UnknownCharacter::kRefuse,
                                 "treatment of unknown characters", pipeline.unknownCharacter));
  pipeline.unknownId = table.unknown_id();
  MOERT_RETURN_IF_ERROR(readEnum(table.model(), ModelKind::kUnigram, "model", pipeline.model));
  return pipeline;
}

} // namespace moert
