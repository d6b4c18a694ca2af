#include "runtime/text/tokenizer/Normalizer.h"

#include "runtime/base/Utf8.h"
#include "runtime/text/tokenizer/ByteAlphabet.h"
#include "runtime/text/tokenizer/UnicodeForm.h"

#include <algorithm>
#include <span>

namespace moert {
namespace {

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
  case Kind::kReplaceRegex:
    return std::max<uint64_t>(1, step.content.size()); // A match has at least one byte.
  case Kind::kPrecompiled:
    return Charsmap::kMaxReplacementBytes;
  case Kind::kByteLevel:
    return 2;
  case Kind::kPrepend:
  case Kind::kStrip:
    return 1;
  }
  return 1;
}

Status checkGrowth(std::span<const NormalizerStep> steps) {
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

Status replaceMatches(const Regex &regex, std::string_view content, RegexScratch &scratch,
                      std::string &text) {
  std::string out;
  size_t begin = 0;
  while (begin < text.size()) {
    MOERT_ASSIGN_OR_RETURN(RegexMatch match, regex.find(text, begin, scratch));
    if (!match.found)
      break;
    out.append(text, begin, match.begin - begin).append(content);
    begin = match.end;
  }
  if (begin > 0)
    text = out.append(text, begin);
  return {};
}

} // namespace

Result<Normalizer> Normalizer::make(std::vector<NormalizerStep> list) {
  MOERT_RETURN_IF_ERROR(checkGrowth(list));
  Normalizer normalizer;
  for (NormalizerStep &step : list) {
    Step compiled;
    if (step.kind == NormalizerStep::Kind::kReplaceRegex) {
      Result<Regex> regex = Regex::compile(step.pattern);
      if (!regex.isOk())
        return regex.status().withContext("normalizer");
      compiled.regex.push_back(std::move(*regex));
    } else if (step.kind == NormalizerStep::Kind::kPrecompiled) {
      Result<Charsmap> charsmap = Charsmap::parse(std::move(step.charsmap));
      if (!charsmap.isOk())
        return charsmap.status().withContext("normalizer");
      compiled.charsmap.push_back(std::move(*charsmap));
    }
    compiled.what = std::move(step);
    normalizer.steps.push_back(std::move(compiled));
  }
  return normalizer;
}

Status Normalizer::apply(std::string &text, RegexScratch &scratch) const {
  for (const Step &step : steps)
    MOERT_RETURN_IF_ERROR(applyStep(step, text, scratch));
  return {};
}

uint64_t Normalizer::memoryBytes() const {
  uint64_t total = steps.capacity() * sizeof(Step);
  for (const Step &step : steps) {
    total += step.what.pattern.capacity() + step.what.content.capacity();
    for (const Regex &regex : step.regex)
      total += regex.memoryBytes();
    for (const Charsmap &charsmap : step.charsmap)
      total += charsmap.memoryBytes();
  }
  return total;
}

Status Normalizer::applyStep(const Step &compiled, std::string &text, RegexScratch &scratch) const {
  const NormalizerStep &step = compiled.what;
  using Kind = NormalizerStep::Kind;
  switch (step.kind) {
  case Kind::kNfc:
  case Kind::kNfd:
  case Kind::kNfkc:
  case Kind::kNfkd:
    text = toUnicodeForm(text, step.kind);
    break;
  case Kind::kPrepend:
    if (!text.empty())
      text.insert(0, step.content);
    break;
  case Kind::kReplace:
    text = replaceAll(text, step.pattern, step.content);
    break;
  case Kind::kReplaceRegex:
    return replaceMatches(compiled.regex[0], step.content, scratch, text);
  case Kind::kPrecompiled:
    text = compiled.charsmap[0].apply(text);
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
  return {};
}

// A replacement that begins with white space needs nothing in front of it in any case.
bool mayTakeFront(const NormalizerStep &step, std::string_view replacement) {
  using Kind = NormalizerStep::Kind;
  if (step.kind == Kind::kStrip)
    return step.left;
  bool isReplace = step.kind == Kind::kReplace || step.kind == Kind::kReplaceRegex;
  if (!isReplace || step.content.starts_with(' ') || step.content.starts_with(replacement))
    return false;
  bool isOneCharacter = step.kind == Kind::kReplace && !step.pattern.empty() &&
                        utf8Length(step.pattern[0]) == step.pattern.size();
  return !isOneCharacter || step.content.empty();
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
