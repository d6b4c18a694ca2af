#include "runtime/text/tokenizer/TokenizerTable.h"

#include "runtime/base/Utf8.h"
#include "runtime/text/tokenizer/TokenizerTableFields.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace moert {
namespace {

constexpr uint32_t kFreeSlot = 0xFFFFFFFF;

static_assert(std::endian::native == std::endian::little, "tables are used in place");
static_assert(sizeof(TokenMerge) == sizeof(tokenizer::Merge) &&
              offsetof(TokenMerge, merged) == 2 * sizeof(int32_t));

// FNV-1a, 64 bit, upper half folded in. Part of the stored form.
uint32_t hashToken(std::string_view token) {
  uint64_t hash = 0xCBF29CE484222325;
  for (char byte : token)
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

// Fibonacci hashing of both ids. Part of the stored form.
uint32_t hashPair(int32_t left, int32_t right) {
  uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  return static_cast<uint32_t>((key ^ key >> 29) * 0x9E3779B97F4A7C15 >> 32);
}

// Slots for count entries, at least a third of them free.
std::vector<uint32_t> makeSlots(size_t count) {
  return std::vector<uint32_t>(std::bit_ceil(count + count / 2 + 1), kFreeSlot);
}

// The first slot from hash on that is free or for whose entry isEqual() returns true.
template <typename Slots, typename IsEqual>
size_t findSlot(const Slots &slots, uint32_t hash, IsEqual &&isEqual) {
  size_t mask = slots.size() - 1;
  size_t slot = hash & mask;
  while (slots[slot] != kFreeSlot && !isEqual(slots[slot]))
    slot = (slot + 1) & mask;
  return slot;
}

std::vector<uint32_t> makeTokenSlots(const TokenizerModel &model) {
  std::vector<bool> isInModel(model.tokens.size(), true);
  for (const AddedToken &added : model.addedTokens)
    isInModel[static_cast<size_t>(added.id)] = added.inModel;
  std::vector<uint32_t> slots = makeSlots(model.tokens.size());
  for (uint32_t id = 0; id < model.tokens.size(); ++id)
    if (isInModel[id] && !model.tokens[id].empty())
      slots[findSlot(slots, hashToken(model.tokens[id]), [](uint32_t) { return false; })] = id;
  return slots;
}

std::vector<uint32_t> makeMergeSlots(const std::vector<TokenMerge> &merges) {
  std::vector<uint32_t> slots = makeSlots(merges.size());
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    const TokenMerge &merge = merges[rank];
    auto isSamePair = [&](uint32_t other) {
      return merges[other].left == merge.left && merges[other].right == merge.right;
    };
    slots[findSlot(slots, hashPair(merge.left, merge.right), isSamePair)] = rank;
  }
  return slots;
}

std::vector<int32_t> sortIdsByToken(const TokenizerModel &model) {
  std::vector<int32_t> ids(model.scores.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return model.tokens[static_cast<size_t>(a)] < model.tokens[static_cast<size_t>(b)];
  });
  return ids;
}

template <typename T> std::span<const T> spanOf(const flatbuffers::Vector<T> &vector) {
  return {vector.data(), vector.size()};
}

Status checkSlots(std::span<const uint32_t> slots, size_t entries, std::string_view what) {
  if (!std::has_single_bit(slots.size()))
    return invalidInput(what, ": found ", slots.size(), " slots, expected a power of two");
  bool hasFree = false;
  for (uint32_t slot : slots) {
    hasFree |= slot == kFreeSlot;
    if (slot != kFreeSlot && slot >= entries)
      return invalidInput(what, ": found a slot with ", slot, ", expected less than ", entries);
  }
  if (!hasFree)
    return invalidInput(what, ": found no free slot, expected at least one");
  return {};
}

Status checkId(int32_t id, const VocabularyView &vocabulary, std::string_view what) {
  if (!vocabulary.hasId(id))
    return invalidInput(what, ": found id ", id, ", expected 0 to ", vocabulary.size() - 1);
  return {};
}

Result<VocabularyView> readVocabulary(const tokenizer::Content &table) {
  VocabularyView view;
  view.bytes = {reinterpret_cast<const char *>(table.token_bytes()->data()),
                table.token_bytes()->size()};
  view.offsets = spanOf(*table.token_offsets());
  view.slots = spanOf(*table.token_slots());
  if (view.offsets.size() < 2 || view.offsets.size() > INT32_MAX)
    return invalidInput("token_offsets: found ", view.offsets.size(), ", expected 2 to ",
                        INT32_MAX);
  if (view.offsets.front() != 0 || view.offsets.back() != view.bytes.size())
    return invalidInput("token_offsets: found ", view.offsets.front(), " to ", view.offsets.back(),
                        ", expected 0 to ", view.bytes.size());
  if (!isValidUtf8(view.bytes))
    return invalidInput("token_bytes: found broken UTF-8");
  for (size_t i = 1; i + 1 < view.offsets.size(); ++i) {
    uint32_t offset = view.offsets[i];
    if (offset < view.offsets[i - 1] || offset > view.bytes.size())
      return invalidInput("token_offsets: found ", offset, " after ", view.offsets[i - 1],
                          ", expected ascending offsets");
    if (offset < view.bytes.size() &&
        (static_cast<unsigned char>(view.bytes[offset]) & 0xC0) == 0x80)
      return invalidInput("token_offsets: token ", i, " starts inside a character");
  }
  MOERT_RETURN_IF_ERROR(checkSlots(view.slots, view.size(), "token_slots"));
  return view;
}

Result<MergeView> readMerges(const tokenizer::Content &table, const VocabularyView &vocabulary) {
  const auto &stored = *table.merges();
  MergeView view{{reinterpret_cast<const TokenMerge *>(stored.Data()), stored.size()},
                 spanOf(*table.merge_slots())};
  for (const TokenMerge &merge : view.merges)
    for (int32_t id : {merge.left, merge.right, merge.merged})
      if (!vocabulary.hasId(
              id)) // Called half a million times for a large table: creates no Status.
        return checkId(id, vocabulary, "merges");
  MOERT_RETURN_IF_ERROR(checkSlots(view.slots, view.merges.size(), "merge_slots"));
  return view;
}

// The order of sorted_ids is checked, because a search for a byte relies on every token in its
// range being long enough.
Result<ScoreView> readScores(const tokenizer::Content &table, const VocabularyView &vocabulary) {
  ScoreView view;
  if (table.scores())
    view.scores = spanOf(*table.scores());
  if (table.sorted_ids())
    view.sortedIds = spanOf(*table.sorted_ids());
  bool isUnigram = table.model() == static_cast<uint8_t>(ModelKind::kUnigram);
  if (view.scores.empty() == isUnigram || view.scores.size() > vocabulary.size() ||
      view.sortedIds.size() != view.scores.size())
    return invalidInput("scores, sorted_ids: found ", view.scores.size(), " and ",
                        view.sortedIds.size(), ", expected ",
                        isUnigram ? "1 to " : "none, since the model is BPE",
                        isUnigram ? std::to_string(vocabulary.size()) + " of both" : "");
  if (isUnigram && table.merges()->size() != 0)
    return invalidInput("merges: found ", table.merges()->size(), ", expected none for Unigram");
  for (double score : view.scores)
    if (!std::isfinite(score))
      return invalidInput("scores: found ", score, ", expected a finite number");
  std::string_view previous;
  for (int32_t id : view.sortedIds) {
    if (id < 0 || static_cast<size_t>(id) >= view.scores.size())
      return invalidInput("sorted_ids: found ", id, ", expected 0 to ", view.scores.size() - 1);
    if (vocabulary.token(id) <= previous)
      return invalidInput("sorted_ids: token ", id, " is not after the one before it");
    previous = vocabulary.token(id);
  }
  return view;
}

Result<std::vector<AddedToken>> readAddedTokens(const tokenizer::Content &table,
                                                const VocabularyView &vocabulary) {
  std::vector<AddedToken> tokens;
  for (const tokenizer::Added *stored : *table.added_tokens()) {
    MOERT_RETURN_IF_ERROR(checkId(stored->id(), vocabulary, "added_tokens"));
    if (vocabulary.token(stored->id()).empty())
      return invalidInput("added_tokens: id ", stored->id(), " has no content");
    MOERT_ASSIGN_OR_RETURN(AddedToken token, addedTokenOf(*stored));
    tokens.push_back(token);
  }
  return tokens;
}

Status checkPipeline(const TokenizerPipeline &pipeline, const VocabularyView &vocabulary) {
  for (const std::vector<int32_t> *ids : {&pipeline.prefixIds, &pipeline.suffixIds})
    for (int32_t id : *ids)
      MOERT_RETURN_IF_ERROR(checkId(id, vocabulary, "prefix_ids, suffix_ids"));
  return checkId(pipeline.unknownId, vocabulary, "unknown_id");
}

} // namespace

std::optional<int32_t> VocabularyView::find(std::string_view wanted) const {
  if (wanted.empty())
    return std::nullopt;
  auto isWanted = [&](uint32_t id) { return token(static_cast<int32_t>(id)) == wanted; };
  uint32_t found = slots[findSlot(slots, hashToken(wanted), isWanted)];
  if (found == kFreeSlot)
    return std::nullopt;
  return static_cast<int32_t>(found);
}

std::optional<uint32_t> MergeView::find(int32_t left, int32_t right) const {
  auto isWanted = [&](uint32_t rank) {
    return merges[rank].left == left && merges[rank].right == right;
  };
  uint32_t found = slots[findSlot(slots, hashPair(left, right), isWanted)];
  if (found == kFreeSlot)
    return std::nullopt;
  return found;
}

std::vector<std::byte> writeTokenizerTable(const TokenizerModel &model) {
  std::string bytes;
  std::vector<uint32_t> offsets{0};
  for (const std::string &token : model.tokens) {
    bytes += token;
    offsets.push_back(static_cast<uint32_t>(bytes.size()));
  }
  flatbuffers::FlatBufferBuilder builder(bytes.size() + 64 * model.merges.size() + 4096);
  auto storedBytes =
      builder.CreateVector(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  auto storedOffsets = builder.CreateVector(offsets);
  auto tokenSlots = builder.CreateVector(makeTokenSlots(model));
  auto merges = builder.CreateVectorOfStructs(
      reinterpret_cast<const tokenizer::Merge *>(model.merges.data()), model.merges.size());
  auto mergeSlots = builder.CreateVector(makeMergeSlots(model.merges));
  TableVocabulary vocabulary{storedBytes, storedOffsets, tokenSlots, merges, mergeSlots, {}, {}};
  if (model.pipeline.model == ModelKind::kUnigram) {
    vocabulary.scores = builder.CreateVector(model.scores);
    vocabulary.sortedIds = builder.CreateVector(sortIdsByToken(model));
  }
  builder.Finish(storeTable(builder, vocabulary, model), tokenizer::ContentIdentifier());
  std::vector<std::byte> result(builder.GetSize());
  std::memcpy(result.data(), builder.GetBufferPointer(), result.size());
  return result;
}

Result<TokenizerTable> readTokenizerTable(std::span<const std::byte> bytes) {
  auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  if (reinterpret_cast<uintptr_t>(data) % 8 != 0)
    return invalidInput("tokenizer table: found at an odd address, expected a multiple of 8");
  if (bytes.size() < 8 || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return invalidInput("tokenizer table: found ", bytes.size(), " bytes, expected 8 to ",
                        FLATBUFFERS_MAX_BUFFER_SIZE);
  if (!tokenizer::ContentBufferHasIdentifier(data))
    return invalidInput("tokenizer table: the identifier MTOK is missing");
  flatbuffers::Verifier verifier(data, bytes.size());
  if (!tokenizer::VerifyContentBuffer(verifier))
    return invalidInput("tokenizer table: its structure is broken");
  const tokenizer::Content &table = *tokenizer::GetContent(data);
  if (table.version() < 1 || table.version() > kTokenizerTableVersion)
    return invalidInput("tokenizer table: found version ", table.version(),
                        ", this reads versions 1 to ", kTokenizerTableVersion);
  TokenizerTable result;
  MOERT_ASSIGN_OR_RETURN(result.vocabulary, readVocabulary(table));
  MOERT_ASSIGN_OR_RETURN(result.merges, readMerges(table, result.vocabulary));
  MOERT_ASSIGN_OR_RETURN(result.scores, readScores(table, result.vocabulary));
  MOERT_ASSIGN_OR_RETURN(result.addedTokens, readAddedTokens(table, result.vocabulary));
  MOERT_ASSIGN_OR_RETURN(result.pipeline, pipelineOf(table));
  MOERT_RETURN_IF_ERROR(checkPipeline(result.pipeline, result.vocabulary));
  return result;
}

} // namespace moert
