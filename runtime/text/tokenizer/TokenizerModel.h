// A tokenizer as plain data: all parts of tokenizer.json that affect ids or text. TokenizerJson
// fills it, TokenizerTable stores it and reads it back; nothing here computes. Offsets, truncation,
// padding and type ids are not covered, because they never change ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// A token that is matched in the raw text before the model encodes it. Its content is the
/// vocabulary entry of its id.
struct AddedToken {
  int32_t id = 0;
  bool inModel = false;    // Also in the model's own vocabulary, so merging can produce it too.
  bool singleWord = false; // Only without word characters next to it.
  bool stripLeft = false;  // Absorbs the white space before it.
  bool stripRight = false; // Absorbs the white space after it.
  bool normalized = false; // Matched in the normalized text, by its normalized content.
  bool special = false;    // Skipped by decode(skipSpecialTokens).

  bool operator==(const AddedToken &) const = default;
};

/// merged = left + right; the index in the list is the rank, lower ranks merge first.
struct TokenMerge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;

  bool operator==(const TokenMerge &) const = default;
};

struct NormalizerStep {
  enum class Kind : uint8_t {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kPrepend,
    kReplace,
    kStrip,
    kByteLevel,
    kReplaceRegex,
    kPrecompiled,
  };

  Kind kind = Kind::kNfc;
  std::string pattern; // kReplace: the text to replace, never empty; kReplaceRegex: as in the file.
  std::string content; // kReplace, kReplaceRegex: the replacement; kPrepend: the text to prepend.
  bool left = false;   // kStrip
  bool right = false;  // kStrip
  std::string charsmap; // kPrecompiled: the bytes of SentencePiece's character map; Charsmap.h.

  bool operator==(const NormalizerStep &) const = default;
};

/// How the matches of a pre-tokenizer's pattern become pieces; text between matches is always kept.
enum class SplitBehavior : uint8_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

/// When Metaspace prepends its character to a piece.
enum class PrependScheme : uint8_t { kAlways, kFirst, kNever };

struct PreTokenizerStep {
  enum class Kind : uint8_t {
    kByteLevel,
    kSplitRegex,
    kSplitText,
    kDigits,
    kMetaspace,
    kWhitespaceSplit,
  };

  Kind kind = Kind::kByteLevel;
  std::string pattern; // kSplitRegex, kSplitText: as in the file; kMetaspace: its character.
  SplitBehavior behavior = SplitBehavior::kIsolated; // kSplitRegex, kSplitText
  bool invert = false;         // kSplitRegex, kSplitText: the text between matches is the match.
  bool addPrefixSpace = false; // kByteLevel
  bool useRegex = false;       // kByteLevel: split by the GPT-2 pattern first.
  bool individual = false;     // kDigits: each digit alone.
  bool split = false;          // kMetaspace: split before each replacement character.
  PrependScheme prependScheme = PrependScheme::kAlways; // kMetaspace

  bool operator==(const PreTokenizerStep &) const = default;
};

struct DecoderStep {
  enum class Kind : uint8_t { kByteLevel, kByteFallback, kReplace, kStrip, kFuse, kMetaspace };

  Kind kind = Kind::kByteLevel;
  std::string pattern; // kReplace: the text to replace; kStrip, kMetaspace: one character.
  std::string content; // kReplace
  uint32_t start = 0;  // kStrip: the maximum removed from the front of a token.
  uint32_t stop = 0;   // kStrip: the maximum removed from its end.
  PrependScheme prependScheme = PrependScheme::kAlways; // kMetaspace

  bool operator==(const DecoderStep &) const = default;
};

/// What encodes a piece: byte-pair merges by rank, or the tokens whose scores have the largest sum.
enum class ModelKind : uint8_t { kBpe, kUnigram };

/// How the model encodes a character that is not in its vocabulary.
enum class UnknownCharacter : uint8_t {
  kDrop,   // Not encoded: the file names no unknown token.
  kToken,  // As unknownId.
  kRefuse, // An error: the file names an unknown token that the vocabulary lacks.
};

/// The small part of a tokenizer: the steps around the vocabulary and the merges.
struct TokenizerPipeline {
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> preTokenizers;
  std::vector<DecoderStep> decoders;
  bool hasDecoder = false;        // Without one, decoding joins the tokens with spaces.
  std::vector<int32_t> prefixIds; // Special tokens that the post-processor puts before and after.
  std::vector<int32_t> suffixIds;
  ModelKind model = ModelKind::kBpe;
  bool byteFallback = false;
  bool fuseUnknown = false;  // kBpe; kUnigram always fuses.
  bool ignoreMerges = false; // kBpe
  UnknownCharacter unknownCharacter = UnknownCharacter::kDrop;
  int32_t unknownId = 0;

  bool operator==(const TokenizerPipeline &) const = default;
};

/// Invariants: every id is below tokens.size(); tokens are valid UTF-8 and, except empty ones,
/// pairwise different; an added token's content is not empty. A Unigram model has no merges and at
/// least one score, and every id below scores.size() has a token of the model.
struct TokenizerModel {
  TokenizerPipeline pipeline;
  std::vector<std::string> tokens;     // By id; empty if the id has no token.
  std::vector<AddedToken> addedTokens; // In the file's order, no id twice.
  std::vector<TokenMerge> merges;      // By rank; of a pair listed twice, the later one counts.

  std::vector<double> scores; // kUnigram: of the model's tokens, by id; finite.

  bool operator==(const TokenizerModel &) const = default;
};

} // namespace moert
