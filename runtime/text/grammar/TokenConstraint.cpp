#include "runtime/text/grammar/TokenConstraint.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace moert {

/// Sets of tokens that a matcher remembers.
constexpr size_t kMostKnown = 16;
/// Bytes that are looked at for the text that has to come next.
constexpr size_t kMostForced = 256;
/// Bytes that may come next in a narrow state; within a string there are over 200.
constexpr size_t kMostNarrow = 32;
/// A state without a number, in a path.
constexpr GrammarAutomaton::State kForgotten = UINT32_MAX;

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

// Texts before it in the order of bytes that share less with it than the one right before it begin
// with no more of it.
std::optional<int32_t> TokenTexts::longestBeginning(std::string_view text) const {
  auto end = sorted.end();
  while (!text.empty()) {
    end = std::upper_bound(sorted.begin(), end, text,
                           [&](std::string_view a, int32_t token) { return a < textOf(token); });
    if (end == sorted.begin())
      break;
    const std::string_view before = textOf(*(end - 1));
    if (text.starts_with(before))
      return *(end - 1);
    text = text.substr(
        0, static_cast<size_t>(
               std::mismatch(text.begin(), text.end(), before.begin(), before.end()).first -
               text.begin()));
  }
  return {};
}

size_t TokenTexts::endOfEqual(size_t index, size_t count) const {
  const std::string_view begin = textOf(sorted[index]).substr(0, count);
  auto isEqual = [&](int32_t token) { return textOf(token).starts_with(begin); };
  // Most ends are near.
  size_t step = 1;
  for (; index + step < sorted.size() && isEqual(sorted[index + step]); step *= 2)
    index += step;
  const auto place = [&](size_t at) {
    return sorted.begin() + static_cast<std::ptrdiff_t>(std::min(at, sorted.size()));
  };
  return static_cast<size_t>(std::partition_point(place(index), place(index + step), isEqual) -
                             sorted.begin());
}

static void setBit(std::vector<uint64_t> &set, int32_t token) {
  const auto index = static_cast<size_t>(token);
  set[index / 64] |= uint64_t(1) << index % 64;
}

void GrammarMatcher::makeRoom(State &from) {
  std::vector<State> kept;
  for (const State *user : users)
    kept.push_back(*user);
  kept.push_back(from);
  automaton.compact(kept);
  // From here on nothing allocates, so that nothing is left half done.
  std::map<State, TokenSet> stillKnown;
  for (size_t i = 0; i < users.size(); ++i) {
    auto found = known.extract(std::exchange(*users[i], kept[i]));
    if (found.empty()) // Also where another user has the same state.
      continue;
    found.key() = kept[i];
    stillKnown.insert(std::move(found));
  }
  known = std::move(stillKnown);
  from = kept.back();
  ++compactionCount;
}

GrammarMatcher::State GrammarMatcher::next(State from, char byte) {
  if (automaton.isFull())
    makeRoom(from);
  return automaton.next(from, static_cast<unsigned char>(byte));
}

const GrammarMatcher::TokenSet *GrammarMatcher::knownTokens(State state) const {
  const auto found = known.find(state);
  return found == known.end() ? nullptr : &found->second;
}

void GrammarMatcher::remember(State state, TokenSet tokens) {
  if (known.size() == kMostKnown)
    known.clear();
  known.emplace(state, std::move(tokens));
}

std::shared_ptr<GrammarMatcher>
GrammarMatchers::matcherOf(const std::shared_ptr<const Grammar> &grammar, const TokenTexts &texts) {
  std::erase_if(matchers, [](const auto &matcher) { return matcher.expired(); });
  for (const auto &weak : matchers)
    if (const auto matcher = weak.lock(); matcher->isOf(*grammar, texts) && matcher->hasRoom())
      return matcher;
  auto matcher = std::make_shared<GrammarMatcher>(grammar, texts); // Shared by its constraints.
  matchers.push_back(matcher);
  return matcher;
}

TokenConstraint::TokenConstraint(std::shared_ptr<GrammarMatcher> sharedMatcher,
                                 std::vector<int32_t> endTokens)
    : matcher(std::move(sharedMatcher)), ends(std::move(endTokens)),
      state(matcher->states().start()) {
  assert(matcher->hasRoom());
  matcher->addUser(state);
}

TokenConstraint::~TokenConstraint() {
  matcher->removeUser(state);
}

uint64_t TokenConstraint::memoryBytes(uint32_t vocabularySize) {
  return GrammarAutomaton::kMostBytes + (kMostKnown + 1) * (uint64_t(vocabularySize) / 8 + 128);
}

bool TokenConstraint::isEndToken(int32_t token) const {
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

bool TokenConstraint::allows(int32_t token) {
  if (isEndToken(token))
    return matcher->states().canEnd(state);
  matcher->visit();
  const std::string_view text = matcher->texts().textOf(token);
  State tried = state;
  for (size_t i = 0; i < text.size() && tried != GrammarAutomaton::kNone; ++i)
    tried = matcher->next(tried, text[i]);
  return !text.empty() && tried != GrammarAutomaton::kNone;
}

bool TokenConstraint::isNarrow() const {
  return !matcher->states().hasMoreBytes(state, kMostNarrow);
}

std::vector<int32_t> TokenConstraint::forcedTokens(size_t most) {
  std::string text;
  State after = state;
  while (text.size() < kMostForced && most > 0) {
    const std::optional<unsigned char> byte = matcher->states().onlyByte(after);
    if (!byte)
      break;
    text += static_cast<char>(*byte);
    after = matcher->next(after, text.back());
  }
  std::vector<int32_t> tokens;
  std::string_view rest = text;
  while (tokens.size() < most) {
    const std::optional<int32_t> token = matcher->texts().longestBeginning(rest);
    if (!token)
      break;
    tokens.push_back(*token);
    rest.remove_prefix(matcher->texts().textOf(*token).size());
  }
  return tokens;
}

void TokenConstraint::renewPath(State last) {
  if (search->compactions == matcher->compactions())
    return;
  search->compactions = matcher->compactions();
  std::fill(search->path.begin(), search->path.end(), kForgotten);
  search->path.back() = last;
  search->path.front() = state;
}

// Texts that share more bytes with the last one than it could be matched for do not fit either.
void TokenConstraint::matchNext() {
  const TokenTexts &texts = matcher->texts();
  const size_t index = search->next++;
  matcher->visit();
  search->common = std::min<size_t>(search->common, texts.sharedBytes(index));
  if (search->common > search->failed) {
    search->next = texts.endOfEqual(index, search->failed + 1);
    return;
  }
  const int32_t token = texts.inOrder()[index];
  const std::string_view text = texts.textOf(token);
  std::vector<State> &path = search->path;
  renewPath(kForgotten);
  path.resize(std::min(path.size(), search->common + 1));
  while (path.back() == kForgotten)
    path.pop_back();
  search->failed = SIZE_MAX;
  for (size_t depth = path.size() - 1; depth < text.size(); ++depth) {
    const State next = matcher->next(path.back(), text[depth]);
    if (next == GrammarAutomaton::kNone) {
      search->failed = depth;
      break;
    }
    path.push_back(next);
    renewPath(next);
  }
  if (search->failed == SIZE_MAX)
    setBit(search->allowed, token);
  search->common = text.size();
}

bool TokenConstraint::findAllowed(uint64_t most) {
  if (matcher->knownTokens(state))
    return true;
  if (!search) {
    search.emplace();
    search->path = {state};
    search->allowed.resize(divideUp(matcher->texts().tokens(), uint64_t(64)));
    search->compactions = matcher->compactions();
  }
  const uint64_t end = steps() + most;
  while (search->next < matcher->texts().inOrder().size()) {
    if (steps() >= end)
      return false;
    matchNext();
  }
  for (int32_t token : ends)
    if (matcher->states().canEnd(state) && static_cast<uint64_t>(token) < matcher->texts().tokens())
      setBit(search->allowed, token);
  matcher->remember(state, std::move(search->allowed));
  search.reset();
  return true;
}

Status TokenConstraint::listAllowed(std::vector<int32_t> &tokens) const {
  tokens.clear();
  const TokenSet &allowed = *matcher->knownTokens(state);
  for (size_t i = 0; i < allowed.size(); ++i)
    for (uint64_t rest = allowed[i]; rest != 0; rest &= rest - 1)
      tokens.push_back(static_cast<int32_t>(i * 64 + static_cast<size_t>(std::countr_zero(rest))));
  if (!tokens.empty())
    return {};
  return matcher->states().hasLostWays()
             ? invalidInput("the format has too many ways to continue the text, expected fewer "
                            "alternatives that begin alike")
             : invalidInput("no token of the vocabulary continues the text as its format requires");
}

void TokenConstraint::take(int32_t token) {
  if (isEndToken(token))
    return;
  search.reset(); // It was for the text before.
  State taken = state;
  for (char byte : matcher->texts().textOf(token))
    taken = matcher->next(taken, byte);
  state = taken;
}

} // namespace moert
