#include "runtime/grammar/Grammar.h"

#include <algorithm>

namespace moert {

/// A text that is nested deeper may not go on to nest.
constexpr size_t kMostDepth = 256;
/// Ways to continue, and tries to find them, after one byte; only a grammar of many equal
/// beginnings has more.
constexpr size_t kMostStacks = 4096;
constexpr uint32_t kMostTries = 65536;
/// Rules that begin with each other: each is a call.
constexpr uint32_t kMostBeginnings = 2048;

void ByteSet::add(unsigned char first, unsigned char last) {
  for (unsigned byte = first; byte <= last; ++byte)
    words[byte / 64] |= uint64_t(1) << (byte % 64);
}

uint32_t Grammar::addRule() {
  rules.emplace_back();
  return static_cast<uint32_t>(rules.size() - 1);
}

void Grammar::addAlternative(uint32_t rule, const Sequence &sequence) {
  rules[rule].push_back(static_cast<uint32_t>(elements.size()));
  elements.insert(elements.end(), sequence.begin(), sequence.end());
  elements.push_back({});
}

Grammar::Element Grammar::bytes(const ByteSet &set) {
  sets.push_back(set);
  return {Element::Kind::kBytes, static_cast<uint32_t>(sets.size() - 1)};
}

void Grammar::appendText(Sequence &sequence, std::string_view text) {
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (singles[byte] == 0) {
      ByteSet set;
      set.add(byte);
      singles[byte] = bytes(set).index + 1;
    }
    sequence.push_back({Element::Kind::kBytes, singles[byte] - 1});
  }
}

bool Grammar::canBeEmpty(uint32_t rule, const std::vector<bool> &empty) const {
  return std::any_of(rules[rule].begin(), rules[rule].end(), [&](uint32_t first) {
    while (elements[first].kind == Element::Kind::kRule && empty[elements[first].index])
      ++first;
    return elements[first].kind == Element::Kind::kEnd;
  });
}

std::vector<std::vector<uint32_t>> Grammar::beginnings() const {
  std::vector<bool> empty(rules.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t rule = 0; rule < rules.size(); ++rule)
      if (!empty[rule] && canBeEmpty(rule, empty))
        changed = empty[rule] = true;
  }
  // A rule can begin with those before its first element that cannot be empty.
  std::vector<std::vector<uint32_t>> found(rules.size());
  for (uint32_t rule = 0; rule < rules.size(); ++rule)
    for (uint32_t first : rules[rule])
      for (; elements[first].kind == Element::Kind::kRule; ++first) {
        found[rule].push_back(elements[first].index);
        if (!empty[elements[first].index])
          break;
      }
  return found;
}

// Rules are taken out once all that they can begin with are; what is left begins with itself.
Status Grammar::check() const {
  const std::vector<std::vector<uint32_t>> begins = beginnings();
  std::vector<std::vector<uint32_t>> users(rules.size());
  std::vector<size_t> waitsFor(rules.size());
  std::vector<uint32_t> calls(rules.size(), 1), done;
  for (uint32_t rule = 0; rule < rules.size(); ++rule) {
    waitsFor[rule] = begins[rule].size();
    for (uint32_t first : begins[rule])
      users[first].push_back(rule);
    if (waitsFor[rule] == 0)
      done.push_back(rule);
  }
  uint32_t most = 0;
  for (size_t next = 0; next < done.size(); ++next) {
    most = std::max(most, calls[done[next]]);
    for (uint32_t user : users[done[next]]) {
      calls[user] = std::max(calls[user], calls[done[next]] + 1);
      if (--waitsFor[user] == 0)
        done.push_back(user);
    }
  }
  if (done.size() < rules.size())
    return invalidInput("it refers to itself without any text between");
  if (most > kMostBeginnings)
    return invalidInput(most, " rules begin with each other, expected at most ", kMostBeginnings);
  return {};
}

GrammarState::GrammarState(const Grammar &matched) : grammar(&matched) {
  for (uint32_t first : matched.rules[0])
    expand({first}, 0);
  std::sort(stacks.begin(), stacks.end());
  stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
}

void GrammarState::expand(Stack stack, uint32_t calls) {
  using Kind = Grammar::Element::Kind;
  if (++tries > kMostTries || stacks.size() >= kMostStacks || calls > kMostBeginnings) {
    lostWays = true;
    return;
  }
  while (!stack.empty() && grammar->elements[stack.back()].kind == Kind::kEnd)
    stack.pop_back();
  if (stack.empty()) {
    ends = true;
    return;
  }
  const Grammar::Element next = grammar->elements[stack.back()];
  if (next.kind == Kind::kBytes) {
    stacks.push_back(std::move(stack));
    return;
  }
  ++stack.back();
  // An element at the end of its alternative has nothing to come back to.
  if (grammar->elements[stack.back()].kind == Kind::kEnd)
    stack.pop_back();
  if (stack.size() >= kMostDepth)
    return;
  for (uint32_t first : grammar->rules[next.index]) {
    stack.push_back(first);
    expand(stack, calls + 1);
    stack.pop_back();
  }
}

size_t GrammarState::size() const {
  size_t elements = 0;
  for (const Stack &stack : stacks)
    elements += stack.size() + sizeof(Stack) / sizeof(uint32_t);
  return elements;
}

bool GrammarState::take(unsigned char byte) {
  std::vector<Stack> before = std::move(stacks);
  stacks.clear();
  ends = false;
  tries = 0;
  for (Stack &stack : before) {
    if (!grammar->sets[grammar->elements[stack.back()].index].has(byte))
      continue;
    ++stack.back();
    expand(std::move(stack), 0);
  }
  if (stacks.size() > 1) {
    std::sort(stacks.begin(), stacks.end());
    stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
  }
  return ends || !stacks.empty();
}

} // namespace moert
