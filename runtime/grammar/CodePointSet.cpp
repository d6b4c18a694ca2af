#include "runtime/grammar/CodePointSet.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <string>

namespace moert {

void CodePointSet::add(uint32_t first, uint32_t last) {
  std::vector<Range> merged;
  for (const Range &range : sorted) {
    if (range.last + 1 < first || range.first > last + 1) {
      merged.push_back(range);
      continue;
    }
    first = std::min(first, range.first);
    last = std::max(last, range.last);
  }
  merged.push_back({first, last});
  std::sort(merged.begin(), merged.end());
  sorted = std::move(merged);
}

void CodePointSet::add(const CodePointSet &other) {
  for (const Range &range : other.sorted)
    add(range.first, range.last);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet others;
  uint32_t next = 0;
  for (const Range &range : sorted) {
    if (range.first > next)
      others.sorted.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLast)
    others.sorted.push_back({next, kLast});
  return others;
}

CodePointSet CodePointSet::without(const CodePointSet &other) const {
  CodePointSet excluded = complement();
  excluded.add(other);
  return excluded.complement();
}

bool CodePointSet::has(uint32_t codePoint) const {
  return std::any_of(sorted.begin(), sorted.end(), [=](const Range &range) {
    return range.first <= codePoint && codePoint <= range.last;
  });
}

// Takes no ASCII. A range whose first and last code point differ in a byte is split, until all
// bytes after that one may have any value.
static void addSequences(Grammar &grammar, uint32_t first, uint32_t last,
                         std::vector<Grammar::Sequence> &sequences) {
  auto split = [&](uint32_t end) {
    addSequences(grammar, first, end, sequences);
    addSequences(grammar, end + 1, last, sequences);
  };
  for (uint32_t end : {0x7FFu, 0xFFFFu})
    if (first <= end && end < last)
      return split(end);
  for (uint32_t bits : {6u, 12u, 18u}) {
    const uint32_t low = (1u << bits) - 1;
    if ((first | low) == (last | low))
      continue;
    if ((first & low) != 0)
      return split(first | low);
    if ((last & low) != low)
      return split((last & ~low) - 1);
  }
  std::string from, to;
  appendCodePoint(first, from);
  appendCodePoint(last, to);
  Grammar::Sequence sequence;
  for (size_t i = 0; i < from.size(); ++i) {
    ByteSet bytes;
    bytes.add(static_cast<unsigned char>(from[i]), static_cast<unsigned char>(to[i]));
    sequence.push_back(grammar.bytes(bytes));
  }
  sequences.push_back(std::move(sequence));
}

std::vector<Grammar::Sequence> utf8Sequences(Grammar &grammar, const CodePointSet &set) {
  std::vector<Grammar::Sequence> sequences;
  ByteSet ascii;
  bool hasAscii = false;
  const CodePointSet scalars = set.without({0xD800, 0xDFFF});
  for (const auto &[first, last] : scalars.ranges()) {
    if (first < 0x80) {
      ascii.add(static_cast<unsigned char>(first),
                static_cast<unsigned char>(std::min(last, 0x7Fu)));
      hasAscii = true;
    }
    if (last >= 0x80)
      addSequences(grammar, std::max(first, 0x80u), last, sequences);
  }
  if (hasAscii)
    sequences.insert(sequences.begin(), Grammar::Sequence{grammar.bytes(ascii)});
  return sequences;
}

} // namespace moert
