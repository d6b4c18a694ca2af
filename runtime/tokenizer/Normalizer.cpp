#include "runtime/tokenizer/Normalizer.h"

#include "runtime/base/Utf8.h"
#include "runtime/tokenizer/ByteAlphabet.h"

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

// Every ASCII character is a starter that no preceding character merges with. So only the stretches
// from one ASCII character to before the next go through utf8proc, which needs four bytes of memory
// per character.
std::string normalizeUnicode(std::string_view text, NormalizerStep::Kind kind) {
  int options = utf8procOptions(kind);
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

void applyStep(const NormalizerStep &step, std::string &text) {
  using Kind = NormalizerStep::Kind;
  switch (step.kind) {
  case Kind::kNfc:
  case Kind::kNfd:
  case Kind::kNfkc:
  case Kind::kNfkd:
    text = normalizeUnicode(text, step.kind);
    break;
  case Kind::kPrepend:
    if (!text.empty())
      text.insert(0, step.content);
    break;
  case Kind::kReplace:
    text = replaceAll(text, step.pattern, step.content);
    break;
  case Kind::kStrip:
    if (step.right)
      text.resize(text.size() - trailingWhiteSpace(text));
    if (step.left)
      text.erase(0, leadingWhiteSpace(text));
    break;
  case Kind::kByteLevel: {
    std::string mapped;
    appendByteAlphabet(text, mapped);
    text = std::move(mapped);
    break;
  }
  }
}

// The maximum factor by which a step multiplies the length of a text, without its own content.
uint64_t growthOf(const NormalizerStep &step) {
  using Kind = NormalizerStep::Kind;
  switch (step.kind) {
  case Kind::kNfc:
  case Kind::kNfd:
    return 4; // U+0390: 2 bytes become 6.
  case Kind::kNfkc:
  case Kind::kNfkd:
    return 12; // U+FDFA: 3 bytes become 33.
  case Kind::kReplace:
    return std::max<uint64_t>(1, (step.content.size() + step.pattern.size() - 1) /
                                     step.pattern.size());
  case Kind::kByteLevel:
    return 2;
  case Kind::kPrepend:
  case Kind::kStrip:
    return 1;
  }
  return 1;
}

} // namespace

Status checkNormalizers(std::span<const NormalizerStep> steps) {
  constexpr uint64_t kMaxGrowth = 4096;
  constexpr size_t kMaxContentBytes = 1024;
  uint64_t growth = 1;
  for (const NormalizerStep &step : steps) {
    if (step.content.size() > kMaxContentBytes)
      return invalidInput("normalizer: found a content of ", step.content.size(),
                          " bytes, expected at most ", kMaxContentBytes);
    growth *= growthOf(step); // At most 4096 * 1024 here.
    if (growth > kMaxGrowth)
      return invalidInput("normalizer: found steps that can grow a text ", growth,
                          " times, expected at most ", kMaxGrowth);
  }
  return {};
}

bool mayTakeFront(const NormalizerStep &step) {
  using Kind = NormalizerStep::Kind;
  return (step.kind == Kind::kStrip && step.left) ||
         (step.kind == Kind::kReplace && step.content.empty());
}

void normalizeText(std::span<const NormalizerStep> steps, std::string &text) {
  for (const NormalizerStep &step : steps)
    applyStep(step, text);
}

std::string replaceAll(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  size_t begin = 0;
  for (;;) {
    size_t match = text.find(pattern, begin);
    if (match == std::string_view::npos)
      break;
    out.append(text, begin, match - begin).append(content);
    begin = match + pattern.size();
  }
  return out.append(text, begin);
}

} // namespace moert
