#include "runtime/grammar/TokenConstraint.h"

#include "runtime/tokenizer/Tokenizer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moert {

/// Sets of tokens that a sequence remembers.
constexpr size_t kMostKnown = 16;
/// Steps for states that the automaton does not know yet. A string of a bounded length, in which
/// each place has states of its own, takes some ten thousand; kMostWays strings at once ten
/// million.
constexpr uint64_t kMostStateSteps = 16'000'000;

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
  distinct = bytes.size();
  for (size_t i = 1; i < sorted.size(); ++i) {
    const std::string_view before = textOf(sorted[i - 1]), text = textOf(sorted[i]);
    const auto differ = std::mismatch(before.begin(), before.end(), text.begin(), text.end());
    shared[i] = static_cast<uint32_t>(differ.first - before.begin());
    distinct -= shared[i];
  }
}

TokenConstraint::TokenConstraint(std::shared_ptr<const Grammar> textGrammar,
                                 const TokenTexts &tokenTexts, std::vector<int32_t> endTokens)
    : grammar(std::move(textGrammar)), texts(tokenTexts), ends(std::move(endTokens)),
      automaton(*grammar), state(automaton.start()) {}

uint64_t TokenConstraint::mostSteps(const TokenTexts &texts) {
  return texts.tokens() + texts.distinctBytes() + kMostStateSteps;
}

uint64_t TokenConstraint::memoryBytes(uint32_t vocabularySize) {
  return GrammarAutomaton::kMostBytes + (kMostKnown + 1) * (uint64_t(vocabularySize) / 8 + 128);
}

bool TokenConstraint::isEndToken(int32_t token) const {
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

bool TokenConstraint::allows(int32_t token) {
  if (isEndToken(token))
    return automaton.canEnd(state);
  const std::string_view text = texts.textOf(token);
  State tried = state;
  for (char byte : text) {
    if (automaton.isFull())
      compact(&tried);
    tried = automaton.next(tried, static_cast<unsigned char>(byte));
  }
  return !text.empty() && tried != GrammarAutomaton::kNone;
}

void TokenConstraint::compact(State *also) {
  std::vector<State> kept = {state};
  if (search)
    kept.insert(kept.end(), search->path.begin(), search->path.end());
  if (also)
    kept.push_back(*also);
  automaton.compact(kept);
  known.clear();
  state = kept[0];
  if (search)
    std::copy_n(kept.begin() + 1, search->path.size(), search->path.begin());
  if (also)
    *also = kept.back();
}

// Texts that share more bytes with the last one than it could be matched for do not fit either.
void TokenConstraint::matchNext() {
  const size_t index = search->next++;
  ++visited;
  search->common = std::min<size_t>(search->common, texts.shared[index]);
  if (search->common > search->failed)
    return;
  const int32_t token = texts.sorted[index];
  const std::string_view text = texts.textOf(token);
  search->path.resize(search->common + 1);
  search->failed = SIZE_MAX;
  for (size_t depth = search->common; depth < text.size(); ++depth) {
    if (automaton.isFull())
      compact(nullptr);
    const State next = automaton.next(search->path.back(), static_cast<unsigned char>(text[depth]));
    if (next == GrammarAutomaton::kNone) {
      search->failed = depth;
      break;
    }
    search->path.push_back(next);
  }
  search->allowed[static_cast<size_t>(token)] = search->failed == SIZE_MAX;
  search->common = text.size();
}

Result<bool> TokenConstraint::findAllowed(uint64_t most) {
  if (known.contains(state))
    return true;
  if (!search) {
    search.emplace();
    search->path = {state};
    search->allowed.resize(texts.tokens(), false);
    search->begin = steps();
  }
  const uint64_t end = steps() + most, last = search->begin + mostSteps(texts);
  while (search->next < texts.sorted.size() && !automaton.hasLostWays() && steps() <= last) {
    if (steps() >= end)
      return false;
    matchNext();
  }
  if (automaton.hasLostWays() || steps() > last) {
    search.reset();
    return tooManyWays();
  }
  if (known.size() == kMostKnown)
    known.clear();
  for (int32_t token : ends)
    if (static_cast<size_t>(token) < search->allowed.size())
      search->allowed[static_cast<size_t>(token)] = automaton.canEnd(state);
  known.emplace(state, std::move(search->allowed));
  search.reset();
  return true;
}

Status TokenConstraint::mask(std::span<float> logits) const {
  const TokenSet &allowed = known.at(state);
  bool isAny = false;
  for (size_t token = 0; token < logits.size(); ++token)
    if (token < allowed.size() && allowed[token])
      isAny = true;
    else
      logits[token] = -INFINITY;
  return isAny ? Status()
               : invalidInput("no token of the vocabulary continues the text as its "
                              "format requires");
}

void TokenConstraint::take(int32_t token) {
  if (isEndToken(token))
    return;
  search.reset(); // It was for the text before.
  for (char byte : texts.textOf(token)) {
    if (automaton.isFull())
      compact(nullptr);
    state = automaton.next(state, static_cast<unsigned char>(byte));
  }
}

} // namespace moert
