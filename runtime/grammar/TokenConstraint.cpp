#include "runtime/grammar/TokenConstraint.h"

#include "runtime/tokenizer/Tokenizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace moert {

/// Sets of tokens that a sequence remembers.
constexpr size_t kMostKnown = 16;
/// Elements of a state that is remembered; one inside a string has some 200.
constexpr size_t kMostKnownSize = 16384;
/// Steps to find the allowed tokens: for each byte of the vocabulary, and at least. A text in a
/// string takes 16 for a byte.
constexpr uint64_t kMostWorkPerByte = 128, kLeastWork = 4'000'000;

static Status tooManyWays() {
  return invalidInput("the format has too many ways to continue the text, expected fewer "
                      "alternatives that begin alike");
}

TokenTexts::TokenTexts(const Tokenizer &tokenizer) {
  for (size_t id = 0; id < tokenizer.vocabularySize(); ++id) {
    const auto token = static_cast<int32_t>(id);
    append(tokenizer.isSpecial(token) ? std::string() : tokenizer.bytesOf(token));
  }
  sort();
}

TokenTexts::TokenTexts(std::vector<std::string> texts) {
  for (const std::string &text : texts)
    append(text);
  sort();
}

void TokenTexts::append(std::string_view text) {
  begins.push_back(static_cast<uint32_t>(bytes.size()));
  bytes += text;
}

std::string_view TokenTexts::textOf(int32_t token) const {
  const auto index = static_cast<size_t>(token);
  if (index >= begins.size())
    return {};
  const size_t end = index + 1 < begins.size() ? begins[index + 1] : bytes.size();
  return std::string_view(bytes).substr(begins[index], end - begins[index]);
}

uint64_t TokenTexts::memoryBytes(uint64_t tokens, uint64_t textBytes) {
  return textBytes * 2 + tokens * (sizeof(uint32_t) * 2 + sizeof(int32_t)) * 2;
}

void TokenTexts::sort() {
  for (size_t token = 0; token < begins.size(); ++token)
    if (!textOf(static_cast<int32_t>(token)).empty())
      sorted.push_back(static_cast<int32_t>(token));
  std::sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) {
    const std::string_view x = textOf(a), y = textOf(b);
    return x != y ? x < y : a < b;
  });
  shared.resize(sorted.size());
  for (size_t i = 1; i < sorted.size(); ++i) {
    const std::string_view before = textOf(sorted[i - 1]), text = textOf(sorted[i]);
    const auto differ = std::mismatch(before.begin(), before.end(), text.begin(), text.end());
    shared[i] = static_cast<uint32_t>(differ.first - before.begin());
  }
}

TokenConstraint::TokenConstraint(std::shared_ptr<const Grammar> textGrammar,
                                 const TokenTexts &tokenTexts, std::vector<int32_t> endTokens)
    : grammar(std::move(textGrammar)), texts(tokenTexts), ends(std::move(endTokens)),
      state(*grammar) {}

bool TokenConstraint::isEndToken(int32_t token) const {
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

bool TokenConstraint::allows(int32_t token) const {
  if (isEndToken(token))
    return state.canEnd();
  const std::string_view text = texts.textOf(token);
  GrammarState tried = state;
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char byte) {
    return tried.take(static_cast<unsigned char>(byte));
  });
}

// Goes through the sorted texts. states[d] is the state after the first d bytes of the last text
// that was matched; its first `failed` bytes fit, and texts that share more with it do not.
Result<TokenConstraint::TokenSet> TokenConstraint::allowedTokens() const {
  const uint64_t mostWork = std::max(kLeastWork, kMostWorkPerByte * texts.bytes.size());
  uint64_t work = 0;
  TokenSet allowed(texts.begins.size(), false);
  std::vector<GrammarState> states = {state};
  size_t failed = std::numeric_limits<size_t>::max();
  size_t common = 0; // Bytes shared with the last text that was matched.
  for (size_t i = 0; i < texts.sorted.size(); ++i) {
    common = i == 0 ? 0 : std::min<size_t>(common, texts.shared[i]);
    if (common > failed)
      continue;
    const std::string_view text = texts.textOf(texts.sorted[i]);
    states.resize(common + 1, state);
    failed = std::numeric_limits<size_t>::max();
    for (size_t depth = common; depth < text.size(); ++depth) {
      states.push_back(states.back());
      const bool fits = states.back().take(static_cast<unsigned char>(text[depth]));
      work += states.back().work();
      if (states.back().hasLostWays() || work > mostWork)
        return tooManyWays();
      if (fits)
        continue;
      states.pop_back();
      failed = depth;
      break;
    }
    allowed[static_cast<size_t>(texts.sorted[i])] = failed == std::numeric_limits<size_t>::max();
    common = text.size();
  }
  return allowed;
}

Status TokenConstraint::mask(std::span<float> logits) {
  const auto found = known.find(state);
  if (found != known.end())
    return mask(logits, found->second);
  if (state.hasLostWays())
    return tooManyWays();
  MOERT_ASSIGN_OR_RETURN(TokenSet allowed, allowedTokens());
  MOERT_RETURN_IF_ERROR(mask(logits, allowed));
  if (state.size() > kMostKnownSize)
    return {};
  if (known.size() == kMostKnown)
    known.clear();
  known.emplace(state, std::move(allowed));
  return {};
}

Status TokenConstraint::mask(std::span<float> logits, const TokenSet &allowed) const {
  bool isAny = false;
  for (size_t token = 0; token < logits.size(); ++token) {
    const bool isEnd = isEndToken(static_cast<int32_t>(token));
    if (isEnd ? state.canEnd() : token < allowed.size() && allowed[token])
      isAny = true;
    else
      logits[token] = -INFINITY;
  }
  if (!isAny)
    return invalidInput("no token of the vocabulary continues the text as its format requires");
  return {};
}

void TokenConstraint::take(int32_t token) {
  if (isEndToken(token))
    return;
  for (char byte : texts.textOf(token))
    state.take(static_cast<unsigned char>(byte));
}

} // namespace moert
