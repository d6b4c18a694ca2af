#include "runtime/text/tokenizer/UnicodeForm.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utf8proc.h>

namespace moert {
namespace {

struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

// Characters that utf8proc (Unicode 15) reorders, composes or decomposes, and that are unassigned
// in Unicode 9, the version of the reference package. There each is a plain starter: nothing is
// moved across it or merged with it. So text is split around them and they stay unchanged. Found by
// comparing both on every code point, before and after every combining class.
constexpr CodePointRange kUnknownToReference[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11938, 0x11938},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45},
    {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

bool isUnknownToReference(uint32_t codePoint) {
  const auto *range = std::lower_bound(
      std::begin(kUnknownToReference), std::end(kUnknownToReference), codePoint,
      [](const CodePointRange &candidate, uint32_t value) { return candidate.last < value; });
  return range != std::end(kUnknownToReference) && range->first <= codePoint;
}

int utf8procOptions(NormalizerStep::Kind kind) {
  using Kind = NormalizerStep::Kind;
  int form = kind == Kind::kNfc || kind == Kind::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  int compatibility = kind == Kind::kNfkc || kind == Kind::kNfkd ? UTF8PROC_COMPAT : 0;
  return UTF8PROC_STABLE | form | compatibility;
}

void appendNormalized(std::string_view text, int options, std::string &out) {
  if (text.empty())
    return;
  utf8proc_uint8_t *normalized = nullptr;
  utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                                         static_cast<utf8proc_ssize_t>(text.size()), &normalized,
                                         static_cast<utf8proc_option_t>(options));
  // With valid UTF-8 this fails only without memory; then the text stays unchanged.
  if (length >= 0)
    out.append(reinterpret_cast<const char *>(normalized), static_cast<size_t>(length));
  else
    out.append(text);
  std::free(normalized);
}

} // namespace

// Every ASCII character is a starter that no preceding character merges with. So only the stretches
// from one ASCII character to before the next go through utf8proc, which needs four bytes of memory
// per character.
std::string toUnicodeForm(std::string_view text, NormalizerStep::Kind form) {
  int options = utf8procOptions(form);
  std::string out;
  out.reserve(text.size());
  size_t begin = 0; // Start of the stretch that is not in out yet.
  for (size_t i = 0; i < text.size();) {
    bool isAscii = static_cast<unsigned char>(text[i]) < 0x80;
    CodePoint character = firstCodePoint(text.substr(i));
    if (isAscii || isUnknownToReference(character.value)) {
      bool isPlain =
          i - begin <= 1 && (i == begin || static_cast<unsigned char>(text[begin]) < 0x80);
      if (isPlain)
        out.append(text, begin, i - begin);
      else
        appendNormalized(text.substr(begin, i - begin), options, out);
      begin = i;
      if (!isAscii) {
        out.append(text, i, character.length);
        begin = i + character.length;
      }
    }
    i += character.length;
  }
  appendNormalized(text.substr(begin), options, out);
  return out;
}

} // namespace moert
