#include "runtime/evaluation/TextWindows.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace moert {

namespace {

/// Takes one document after another. The unfinished packed window is kept outside of the result, so
/// that the result stays in the order of units.
class Cut {
public:
  Cut(std::optional<int32_t> separatorToken, uint32_t windowTokens) : separator(separatorToken) {
    result.windowTokens = windowTokens;
  }

  void add(std::span<const int32_t> document, DocumentId id);
  TextWindows finish() && { return std::move(result); }

private:
  void addUnit(std::span<const int32_t> tokens, std::span<const DocumentId> ids);
  void pack(std::span<const int32_t> document, DocumentId id);
  void addPacked();

  const std::optional<int32_t> separator;
  TextWindows result;
  std::vector<int32_t> packed;
  std::vector<DocumentId> packedIds;
};

} // namespace

void Cut::addUnit(std::span<const int32_t> tokens, std::span<const DocumentId> ids) {
  result.tokens.insert(result.tokens.end(), tokens.begin(), tokens.end());
  result.units.resize(result.tokens.size() / result.windowTokens,
                      static_cast<uint32_t>(result.documents.size()));
  result.documents.push_back(static_cast<uint32_t>(ids.size()));
  result.documentIds.insert(result.documentIds.end(), ids.begin(), ids.end());
}

void Cut::pack(std::span<const int32_t> document, DocumentId id) {
  if (separator)
    packed.push_back(*separator);
  if (packed.size() == result.windowTokens) {
    // No room after the separator: it ends this window, and the document begins the next one.
    addPacked();
    packed.push_back(*separator);
  }
  packed.insert(packed.end(), document.begin(), document.end());
  packedIds.push_back(id);
  if (packed.size() >= result.windowTokens)
    addPacked();
}

void Cut::addPacked() {
  addUnit(std::span(packed).first(result.windowTokens), packedIds);
  packed.clear();
  packedIds.clear();
}

void Cut::add(std::span<const int32_t> document, DocumentId id) {
  ++result.documentsRead;
  const size_t windows = document.size() / result.windowTokens;
  result.tokensRead += document.size() + (windows == 0 && separator ? 1 : 0);
  if (windows > 0)
    addUnit(document.first(windows * result.windowTokens), {&id, 1});
  else
    pack(document, id);
}

uint64_t TextWindows::documentsUsed() const {
  return std::accumulate(documents.begin(), documents.end(), uint64_t(0));
}

std::span<const DocumentId> TextWindows::documentsOf(uint32_t unit) const {
  const auto first =
      std::accumulate(documents.begin(), documents.begin() + ptrdiff_t(unit), size_t(0));
  return std::span(documentIds).subspan(first, documents[unit]);
}

void TextWindows::keepOnly(std::span<const uint32_t> kept) {
  TextWindows left;
  std::optional<uint32_t> lastUnit;
  for (uint32_t index : kept) {
    if (std::exchange(lastUnit, units[index]) != units[index]) {
      const std::span<const DocumentId> ids = documentsOf(units[index]);
      left.documents.push_back(static_cast<uint32_t>(ids.size()));
      left.documentIds.insert(left.documentIds.end(), ids.begin(), ids.end());
    }
    left.units.push_back(static_cast<uint32_t>(left.documents.size() - 1));
    const std::span<const int32_t> ids = window(index);
    left.tokens.insert(left.tokens.end(), ids.begin(), ids.end());
  }
  tokens = std::move(left.tokens);
  units = std::move(left.units);
  documents = std::move(left.documents);
  documentIds = std::move(left.documentIds);
}

TextWindows cutWindows(std::span<const std::vector<int32_t>> documents,
                       std::optional<int32_t> separator, uint32_t windowTokens) {
  Cut cut(separator, windowTokens);
  for (const std::vector<int32_t> &document : documents)
    cut.add(document, documentIdOf({.text = {}, .ids = document}));
  return std::move(cut).finish();
}

Result<WindowCutter> WindowCutter::create(const Tokenizer &tokenizer,
                                          std::span<const int32_t> endTokens,
                                          uint32_t vocabularySize, uint32_t windowTokens) {
  WindowCutter cutter(tokenizer, vocabularySize, windowTokens);
  // Any text shows whether the tokenizer adds tokens of its own.
  MOERT_ASSIGN_OR_RETURN(const std::vector<int32_t> with, tokenizer.encode("a", true));
  MOERT_ASSIGN_OR_RETURN(const std::vector<int32_t> without, tokenizer.encode("a", false));
  if (with.size() == without.size() && !endTokens.empty())
    cutter.separator = endTokens.front();
  cutter.added.assign(with.begin(),
                      std::search(with.begin(), with.end(), without.begin(), without.end()));
  return cutter;
}

Result<std::vector<int32_t>> WindowCutter::tokensOf(const TextDocument &document) const {
  if (document.ids.empty())
    return tokenizer->encode(document.text, true);
  for (int32_t id : document.ids)
    if (static_cast<uint32_t>(id) >= vocabularySize)
      return invalidInput("line ", document.line, ": found the id ", id,
                          " in \"ids\", expected those of the model: 0 to ", vocabularySize - 1,
                          "; without \"ids\" the text is tokenized");
  if (tokenizer->decode(document.ids, false) != document.text)
    return invalidInput("line ", document.line,
                        ": found \"ids\" of another text than \"text\", expected ids of this "
                        "model's tokenizer; without \"ids\" the text is tokenized");
  std::vector<int32_t> ids = added;
  ids.insert(ids.end(), document.ids.begin(), document.ids.end());
  return ids;
}

Result<TextWindows> WindowCutter::cut(std::span<const TextDocument> documents) const {
  Cut cut(separator, windowTokens);
  for (const TextDocument &document : documents) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokensOf(document));
    cut.add(ids, documentIdOf(document));
  }
  return std::move(cut).finish();
}

} // namespace moert
