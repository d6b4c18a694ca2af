// The windows of a text's documents, and the units that they belong to. Losses are resampled by
// unit: windows of one document are not independent of each other, documents are.
//
//   at least one window long   cut into windows without overlap; the remainder is left out. All
//                              windows of the document are one unit
//   shorter                    packed into a window, each document after a separator token, until
//                              the window is full. The part of the last document that does not fit
//                              is left out, so that no document is in two units. A packed window is
//                              one unit; the last one of a file is left out where it is not full
//
// The separator token is the begin token that the tokenizer itself adds to a text, otherwise the
// model's first end token; a model without either has none. Documents longer than a window begin
// with the begin token only if the tokenizer adds it.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/evaluation/TextDocuments.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// Windows in the order of units, so that the windows of a unit are consecutive.
struct TextWindows {
  uint32_t windowTokens = 0;
  std::vector<int32_t> tokens;         // [windows][windowTokens]
  std::vector<uint32_t> units;         // Unit per window, ascending from 0 without gaps.
  std::vector<uint32_t> documents;     // Per unit: how many documents are in it.
  std::vector<DocumentId> documentIds; // Those of the first unit, those of the second, ...
  uint64_t documentsRead = 0;          // All documents, including those in no window.
  uint64_t tokensRead = 0;             // Tokens of all documents, separator tokens included.

  uint64_t windows() const { return units.size(); }
  uint64_t documentsUsed() const;
  std::span<const int32_t> window(uint64_t index) const {
    return std::span(tokens).subspan(index * windowTokens, windowTokens);
  }
  /// The documents of a unit.
  std::span<const DocumentId> documentsOf(uint32_t unit) const;
  /// Leaves out all other windows and numbers the units anew. windows: ascending. A unit keeps its
  /// documents also where some of its windows are left out.
  void keepOnly(std::span<const uint32_t> windows);
  uint64_t memoryBytes() const {
    return tokens.capacity() * sizeof(int32_t) +
           (units.capacity() + documents.capacity()) * sizeof(uint32_t) +
           documentIds.capacity() * sizeof(DocumentId);
  }
};

/// Cuts documents of one model into windows. Borrows the tokenizer.
class WindowCutter {
public:
  /// endTokens and vocabularySize: the model's, the former in the order in which its configuration
  /// names them. A vocabulary may have more ids than its tokenizer has tokens.
  static Result<WindowCutter> create(const Tokenizer &tokenizer, std::span<const int32_t> endTokens,
                                     uint32_t vocabularySize, uint32_t windowTokens);

  Result<TextWindows> cut(std::span<const TextDocument> documents) const;

  /// A document's own ids behind addedTokens(), or what the tokenizer gives. Refuses, by line, ids
  /// that are not in the vocabulary or not those of the text, such as another tokenizer's.
  Result<std::vector<int32_t>> tokensOf(const TextDocument &document) const;

  /// The token before each packed document in addition to what the tokenizer adds; often the end
  /// token.
  std::optional<int32_t> separatorToken() const { return separator; }
  /// What the tokenizer adds before a text; often nothing.
  const std::vector<int32_t> &addedTokens() const { return added; }

private:
  WindowCutter(const Tokenizer &borrowed, uint32_t ids, uint32_t tokens)
      : tokenizer(&borrowed), vocabularySize(ids), windowTokens(tokens) {}

  const Tokenizer *tokenizer;
  uint32_t vocabularySize;
  uint32_t windowTokens;
  std::optional<int32_t> separator;
  std::vector<int32_t> added;
};

/// The windows of tokenized documents. Adds no separator before a document of at least one window.
TextWindows cutWindows(std::span<const std::vector<int32_t>> documents,
                       std::optional<int32_t> separator, uint32_t windowTokens);

} // namespace moert
