// Sets of characters, and their texts in UTF-8 as rules of a grammar.
#pragma once

#include "runtime/base/Utf8.h"
#include "runtime/text/grammar/Grammar.h"

#include <cstdint>
#include <vector>

namespace moert {

class CodePointSet {
public:
  static constexpr uint32_t kLast = kLastCodePoint;
  struct Range {
    uint32_t first, last;
    auto operator<=>(const Range &) const = default;
  };

  CodePointSet() = default;
  CodePointSet(uint32_t first, uint32_t last) : sorted{{first, last}} {}
  /// Takes ranges in any order, which may overlap.
  explicit CodePointSet(std::vector<Range> ranges);
  static CodePointSet all() { return {0, kLast}; }

  /// All code points from first to last.
  void add(uint32_t first, uint32_t last) { add({first, last}); }
  void add(const CodePointSet &other);
  CodePointSet complement() const;
  CodePointSet without(const CodePointSet &other) const;
  bool has(uint32_t codePoint) const;
  bool isEmpty() const { return sorted.empty(); }
  /// Ascending, with code points between them that are not in the set.
  const std::vector<Range> &ranges() const { return sorted; }

  auto operator<=>(const CodePointSet &) const = default;

private:
  /// Joins sorted ranges that touch.
  void join();

  std::vector<Range> sorted;
};

/// One character of the set in UTF-8, which has no surrogates: each sequence is an alternative.
std::vector<Grammar::Sequence> utf8Sequences(Grammar &grammar, const CodePointSet &set);

} // namespace moert
