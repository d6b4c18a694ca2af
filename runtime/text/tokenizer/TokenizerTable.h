// The stored form of a tokenizer (Tokenizer.fbs): written once by the compiler, used in place by
// the runtime. The bytes are not trusted: reading checks the structure (FlatBuffers' verifier) and
// then every id, offset, slot and enumeration, so that no later lookup can leave the table.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/tokenizer/TokenizerModel.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace moert {

/// The last version that this code writes and reads; version 1 has no Unigram models.
inline constexpr uint32_t kTokenizerTableVersion = 2;

/// The table of a model that satisfies TokenizerModel's invariants. Same model, same bytes.
std::vector<std::byte> writeTokenizerTable(const TokenizerModel &model);

/// The tokens of a table, in place.
struct VocabularyView {
  std::string_view bytes;
  std::span<const uint32_t> offsets; // One more than there are ids; ascending.
  std::span<const uint32_t> slots;

  size_t size() const { return offsets.size() - 1; }
  bool hasId(int64_t id) const { return id >= 0 && static_cast<uint64_t>(id) < size(); }
  std::string_view token(int32_t id) const {
    auto index = static_cast<size_t>(id);
    return bytes.substr(offsets[index], offsets[index + 1] - offsets[index]);
  }
  /// The id of a token of the model; tokens that are only added tokens are not found.
  std::optional<int32_t> find(std::string_view token) const;
};

/// The merges of a table, in place.
struct MergeView {
  std::span<const TokenMerge> merges;
  std::span<const uint32_t> slots;

  /// The rank of a pair.
  std::optional<uint32_t> find(int32_t left, int32_t right) const;
};

/// The scores of a Unigram model, in place; both empty for BPE.
struct ScoreView {
  std::span<const double> scores;     // By id.
  std::span<const int32_t> sortedIds; // The same tokens, ascending by their bytes.
};

/// A checked table. vocabulary, merges and scores point into the bytes that it was read from, which
/// must outlive it; the rest is small and copied.
struct TokenizerTable {
  VocabularyView vocabulary;
  MergeView merges;
  ScoreView scores;
  std::vector<AddedToken> addedTokens;
  TokenizerPipeline pipeline;
};

Result<TokenizerTable> readTokenizerTable(std::span<const std::byte> bytes);

} // namespace moert
