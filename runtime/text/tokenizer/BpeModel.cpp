#include "runtime/text/tokenizer/BpeModel.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <functional>

namespace moert {
namespace {

constexpr uint32_t kNone = 0xFFFFFFFF;

void appendSymbol(BpeScratch &scratch, int32_t id, uint32_t length) {
  auto position = static_cast<uint32_t>(scratch.symbols.size());
  uint32_t previous = kNone;
  if (position > 0) {
    scratch.symbols.back().next = position;
    previous = position - 1;
  }
  scratch.symbols.push_back({id, previous, kNone, length});
}

} // namespace

BpeModel::BpeModel(const VocabularyView &tokens, const MergeView &pairs,
                   const TokenizerPipeline &pipeline)
    : vocabulary(tokens), merges(pairs), byteTokens(tokens, pipeline.byteFallback),
      fuseUnknown(pipeline.fuseUnknown), ignoreMerges(pipeline.ignoreMerges),
      unknownCharacter(pipeline.unknownCharacter), unknownId(pipeline.unknownId) {}

Status BpeModel::encode(std::string_view piece, BpeScratch &scratch,
                        std::vector<int32_t> &ids) const {
  if (ignoreMerges)
    if (std::optional<int32_t> id = vocabulary.find(piece)) {
      ids.push_back(*id);
      return {};
    }
  scratch.symbols.clear();
  MOERT_RETURN_IF_ERROR(splitIntoCharacters(piece, scratch));
  mergeAll(scratch);
  for (const BpeScratch::Symbol &symbol : scratch.symbols)
    if (symbol.length != 0)
      ids.push_back(symbol.id);
  return {};
}

// The unknown token is written when the next known character or the end comes: with fuseUnknown it
// then covers all unknown characters since, and byte tokens between them precede it. This is the
// behaviour of the reference package.
Status BpeModel::splitIntoCharacters(std::string_view piece, BpeScratch &scratch) const {
  uint32_t unknownLength = 0; // Bytes covered by the unknown token that is not written yet.
  auto flushUnknown = [&] {
    if (unknownLength > 0)
      appendSymbol(scratch, unknownId, unknownLength);
    unknownLength = 0;
  };
  for (size_t i = 0; i < piece.size();) {
    std::string_view character = piece.substr(i, utf8Length(piece[i]));
    i += character.size();
    if (std::optional<int32_t> id = vocabulary.find(character)) {
      flushUnknown();
      appendSymbol(scratch, *id, static_cast<uint32_t>(character.size()));
      continue;
    }
    if (appendBytes(character, scratch))
      continue;
    if (unknownCharacter == UnknownCharacter::kDrop)
      continue;
    if (unknownCharacter == UnknownCharacter::kRefuse)
      return invalidInput("found '", character,
                          "', which is not in the vocabulary, and neither is the "
                          "tokenizer's token for unknown characters");
    if (!fuseUnknown)
      flushUnknown();
    unknownLength += static_cast<uint32_t>(character.size());
  }
  flushUnknown();
  return {};
}

bool BpeModel::appendBytes(std::string_view character, BpeScratch &scratch) const {
  if (!byteTokens.hasAll(character))
    return false;
  for (char byte : character)
    appendSymbol(scratch, byteTokens.id(byte), 1);
  return true;
}

// Merges the pair with the lowest rank, the leftmost of equals, until none is left. A queue entry
// is stale if its pair has changed; it then counts only if the pair that is there now merges into
// the same token, which is the test of the reference package.
void BpeModel::mergeAll(BpeScratch &scratch) const {
  std::vector<BpeScratch::Symbol> &symbols = scratch.symbols;
  std::vector<uint64_t> &queue = scratch.queue;
  queue.clear();
  auto rankAt = [&](uint32_t position) {
    return merges.find(symbols[position].id, symbols[symbols[position].next].id);
  };
  auto push = [&](uint32_t position) {
    if (std::optional<uint32_t> rank = rankAt(position)) {
      queue.push_back(uint64_t{*rank} << 32 | position);
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
  };
  for (uint32_t position = 0; position + 1 < symbols.size(); ++position)
    push(position);
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    auto position = static_cast<uint32_t>(queue.back());
    int32_t merged = merges.merges[queue.back() >> 32].merged;
    queue.pop_back();
    BpeScratch::Symbol &left = symbols[position];
    if (left.length == 0 || left.next == kNone)
      continue;
    std::optional<uint32_t> rank = rankAt(position);
    if (!rank || merges.merges[*rank].merged != merged)
      continue;
    BpeScratch::Symbol &right = symbols[left.next];
    left.id = merged;
    left.length += right.length;
    left.next = right.next;
    right.length = 0;
    if (left.next != kNone) {
      symbols[left.next].previous = position;
      push(position);
    }
    if (left.previous != kNone)
      push(left.previous);
  }
}

} // namespace moert
