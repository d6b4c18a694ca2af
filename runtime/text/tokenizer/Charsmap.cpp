#include "runtime/text/tokenizer/Charsmap.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utf8proc.h>
#include <utility>

namespace moert {
namespace {

// The fields of a unit of darts-clone.
uint32_t labelOf(uint32_t unit) {
  return unit & 0x800000FF;
}
size_t offsetOf(uint32_t unit) {
  return size_t{unit >> 10} << ((unit & 0x200) >> 6);
}
bool hasLeaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
size_t valueOf(uint32_t unit) {
  return unit & 0x7FFFFFFF;
}

struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

// Characters that continue a cluster since Unicode 16 and 17, which the reference package
// implements; utf8proc has 15. Found by comparing both on every code point.
constexpr CodePointRange kNewMarks[] = {
    {0x897, 0x897},     {0x1ACF, 0x1ADD},   {0x1AE0, 0x1AEB},   {0x10D69, 0x10D6D},
    {0x10EFA, 0x10EFC}, {0x113B8, 0x113C0}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5},
    {0x113C7, 0x113CA}, {0x113CC, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2},
    {0x11B60, 0x11B67}, {0x11F5A, 0x11F5A}, {0x1611E, 0x1612F}, {0x1E5EE, 0x1E5EF},
    {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5},
};

// A new mark as an old one, which has the same class.
utf8proc_int32_t asKnownMark(uint32_t codePoint) {
  constexpr utf8proc_int32_t kOldMark = 0x301;
  bool isNew =
      std::any_of(std::begin(kNewMarks), std::end(kNewMarks), [&](const CodePointRange &range) {
        return range.first <= codePoint && codePoint <= range.last;
      });
  return isNew ? kOldMark : static_cast<utf8proc_int32_t>(codePoint);
}

// Whether a cluster ends between two characters.
bool endsCluster(uint32_t previous, uint32_t next, utf8proc_int32_t &state) {
  if (previous < 0x80 && next < 0x80)
    return previous != '\r' || next != '\n';
  return utf8proc_grapheme_break_stateful(asKnownMark(previous), asKnownMark(next), &state);
}

// The length of the grapheme cluster at the start of text.
size_t clusterLength(std::string_view text) {
  CodePoint previous = firstCodePoint(text);
  size_t length = previous.length;
  utf8proc_int32_t state = 0;
  while (length < text.size()) {
    CodePoint next = firstCodePoint(text.substr(length));
    if (endsCluster(previous.value, next.value, state))
      break;
    length += next.length;
    previous = next;
  }
  return length;
}

} // namespace

Result<Charsmap> Charsmap::parse(std::string bytes) {
  Charsmap map;
  uint32_t trieBytes = 0;
  if (bytes.size() >= sizeof(trieBytes))
    std::memcpy(&trieBytes, bytes.data(), sizeof(trieBytes));
  if (trieBytes < sizeof(uint32_t) || trieBytes % sizeof(uint32_t) != 0 ||
      trieBytes > bytes.size() - sizeof(trieBytes))
    return invalidInput("found a character map of ", bytes.size(), " bytes with a trie of ",
                        trieBytes, ", expected a multiple of 4 that it has room for");
  map.unitCount = trieBytes / sizeof(uint32_t);
  map.bytes = std::move(bytes);
  std::string_view texts = map.replacements();
  if (!isValidUtf8(texts))
    return invalidInput("found broken UTF-8 in the replacements of a character map");
  for (size_t begin = 0; begin < texts.size();) {
    size_t end = std::min(texts.find('\0', begin), texts.size());
    if (end - begin > kMaxReplacementBytes)
      return invalidInput("found a replacement of ", end - begin,
                          " bytes in a character map, expected at most ",
                          uint32_t{kMaxReplacementBytes});
    begin = end + 1;
  }
  return map;
}

uint32_t Charsmap::unit(size_t index) const {
  uint32_t value = 0;
  std::memcpy(&value, bytes.data() + sizeof(uint32_t) * (1 + index), sizeof(value));
  return value;
}

// The replacement of the shortest key that text starts with, as in the reference package.
std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  std::string_view texts = replacements();
  size_t node = offsetOf(unit(0));
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= unitCount || labelOf(unit(node)) != byte)
      return std::nullopt;
    bool isKey = hasLeaf(unit(node));
    node ^= offsetOf(unit(node));
    if (!isKey)
      continue;
    size_t begin = node < unitCount ? valueOf(unit(node)) : texts.size();
    if (begin >= texts.size() || (static_cast<unsigned char>(texts[begin]) & 0xC0) == 0x80)
      return std::nullopt;
    return texts.substr(begin, texts.find('\0', begin) - begin);
  }
  return std::nullopt;
}

// Only clusters of less than six bytes are looked up whole; the reference package's limit.
std::string Charsmap::apply(std::string_view text) const {
  constexpr size_t kMaxClusterBytes = 5;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::string_view cluster = text.substr(0, clusterLength(text));
    text.remove_prefix(cluster.size());
    if (cluster.size() <= kMaxClusterBytes)
      if (std::optional<std::string_view> whole = find(cluster)) {
        out += *whole;
        continue;
      }
    while (!cluster.empty()) {
      std::string_view character = cluster.substr(0, utf8Length(cluster[0]));
      out += find(character).value_or(character);
      cluster.remove_prefix(character.size());
    }
  }
  return out;
}

} // namespace moert
