// What a tokenizer is, as plain data: everything that tokenizer.json says and that changes ids or
// text. TokenizerJson fills it, TokenizerTable stores it and reads it back; nothing here does any
// work. Not covered, because they never change ids: offsets, truncation, padding, type ids.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moert {

/// A token that is found in the raw text before the model sees it. Its content is the vocabulary
/// entry of its id.
struct AddedToken {
  int32_t id = 0;
  bool inModel = false; // The model's own vocabulary has it too, so that merging can also give it.
  bool singleWord = false; // Only where no word character touches it.
  bool stripLeft = false;  // Swallows the white space before it.
  bool stripRight = false; // Swallows the white space after it.
  bool normalized = false; // Looked for in the normalized text, by its normalized content.
  bool special = false;    // Left out by decode(skipSpecialTokens).

  bool operator==(const AddedToken &) const = default;
};

/// merged = left + right; the place in the list is the rank, lower ranks merge first.
struct TokenMerge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;

  bool operator==(const TokenMerge &) const = default;
};

struct NormalizerStep {
  enum class Kind : uint8_t { kNfc, kNfd, kNfkc, kNfkd, kPrepend, kReplace, kStrip, kByteLevel };

  Kind kind = Kind::kNfc;
  std::string pattern; // kReplace: the text looked for, never empty.
  std::string content; // kReplace: what stands instead; kPrepend: what is put in front.
  bool left = false;   // kStrip
  bool right = false;  // kStrip

  bool operator==(const NormalizerStep &) const = default;
};

/// What becomes of the matches of a pre-tokenizer's pattern; text between matches always stays.
enum class SplitBehavior : uint8_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

/// When Metaspace puts its character in front of a piece.
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
  bool split = false;          // kMetaspace: cut before each replacement character.
  PrependScheme prependScheme = PrependScheme::kAlways; // kMetaspace

  bool operator==(const PreTokenizerStep &) const = default;
};

struct DecoderStep {
  enum class Kind : uint8_t { kByteLevel, kByteFallback, kReplace, kStrip, kFuse, kMetaspace };

  Kind kind = Kind::kByteLevel;
  std::string pattern; // kReplace: text looked for; kStrip, kMetaspace: one character.
  std::string content; // kReplace
  uint32_t start = 0;  // kStrip: at most so many at the front of a token.
  uint32_t stop = 0;   // kStrip: at most so many at its end.
  PrependScheme prependScheme = PrependScheme::kAlways; // kMetaspace

  bool operator==(const DecoderStep &) const = default;
};

/// What the model does with a character that is not in its vocabulary.
enum class UnknownCharacter : uint8_t {
  kDrop,   // The file names no unknown token.
  kToken,  // unknownId stands for it.
  kRefuse, // The file names one that the vocabulary lacks: encoding such a character fails.
};

/// The small part of a tokenizer: the steps around the vocabulary and the merges.
struct TokenizerPipeline {
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> preTokenizers;
  std::vector<DecoderStep> decoders;
  bool hasDecoder = false; // Without one, decoding joins the tokens with spaces.
  std::vector<int32_t>
      prefixIds; // Special tokens that the post-processor puts in front and behind.
  std::vector<int32_t> suffixIds;
  bool byteFallback = false;
  bool fuseUnknown = false;
  bool ignoreMerges = false;
  UnknownCharacter unknownCharacter = UnknownCharacter::kDrop;
  int32_t unknownId = 0;

  bool operator==(const TokenizerPipeline &) const = default;
};

/// Invariants: every id in it is below tokens.size(); tokens are valid UTF-8 and, but for the empty
/// ones, pairwise different; an added token's content is not empty.
struct TokenizerModel {
  TokenizerPipeline pipeline;
  std::vector<std::string> tokens;     // By id; empty where no token has the id.
  std::vector<AddedToken> addedTokens; // In the file's order, no id twice.
  std::vector<TokenMerge> merges;      // By rank; where a pair comes twice, the later one counts.

  bool operator==(const TokenizerModel &) const = default;
};

} // namespace moert
