#include "runtime/text/grammar/CodePointSet.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace moert {

CodePointSet::CodePointSet(std::vector<Range> ranges) : sorted(std::move(ranges)) {
  std::sort(sorted.begin(), sorted.end());
  join();
}

void CodePointSet::add(const CodePointSet &other) {
  const auto middle = static_cast<ptrdiff_t>(sorted.size());
  sorted.insert(sorted.end(), other.sorted.begin(), other.sorted.end());
  std::inplace_merge(sorted.begin(), sorted.begin() + middle, sorted.end());
  join();
}

void CodePointSet::join() {
  size_t joined = 0;
  for (const Range range : sorted) {
    if (joined > 0 && range.first <= sorted[joined - 1].last + 1)
      sorted[joined - 1].last = std::max(sorted[joined - 1].last, range.last);
    else
      sorted[joined++] = range;
  }
  sorted.resize(joined);
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
  const auto after =
      std::upper_bound(sorted.begin(), sorted.end(), codePoint,
                       [](uint32_t wanted, const Range &range) { return wanted < range.first; });
  return after != sorted.begin() && codePoint <= std::prev(after)->last;
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
