#include "runtime/text/grammar/Grammar.h"

#include "runtime/base/Status.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace moert {

/// Rules that begin with each other: each is a step to find the ways to continue a text.
constexpr uint32_t kMostBeginnings = 2048;

void ByteSet::add(unsigned char first, unsigned char last) {
  for (unsigned byte = first; byte <= last; ++byte)
    words[byte / 64] |= uint64_t(1) << (byte % 64);
}

std::optional<unsigned char> ByteSet::only() const {
  std::optional<unsigned char> byte;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == 0)
      continue;
    if (byte || !std::has_single_bit(words[i]))
      return std::nullopt;
    byte = static_cast<unsigned char>(i * 64 + static_cast<size_t>(std::countr_zero(words[i])));
  }
  return byte;
}

uint32_t Grammar::addRule() {
  rules.emplace_back();
  return static_cast<uint32_t>(rules.size() - 1);
}

void Grammar::addAlternative(uint32_t rule, const Sequence &sequence) {
  const auto added = static_cast<uint32_t>(alternatives.size());
  alternatives.push_back({static_cast<uint32_t>(elements.size()), kNoAlternative});
  append(rules[rule], added);
  elements.insert(elements.end(), sequence.begin(), sequence.end());
  elements.push_back({});
}

Grammar::Element Grammar::bytes(const ByteSet &set) {
  const auto [found, isNew] = setIndices.try_emplace(set, static_cast<uint32_t>(sets.size()));
  if (isNew)
    sets.push_back(set);
  return {Element::Kind::kBytes, found->second};
}

void Grammar::appendText(Sequence &sequence, std::string_view text) {
  for (char byte : text) {
    ByteSet set;
    set.add(static_cast<unsigned char>(byte));
    sequence.push_back(bytes(set));
  }
}

uint32_t Grammar::append(const Grammar &other) {
  const uint32_t first = ruleCount();
  for (const Rule &rule : other.rules) {
    const uint32_t added = addRule();
    for (uint32_t i = rule.first; i != kNoAlternative; i = other.alternatives[i].next) {
      Sequence sequence;
      for (uint32_t at = other.alternatives[i].element;
           other.elements[at].kind != Element::Kind::kEnd; ++at) {
        const Element &element = other.elements[at];
        sequence.push_back(element.kind == Element::Kind::kRule ? ruleOf(first + element.index)
                                                                : bytes(other.sets[element.index]));
      }
      addAlternative(added, sequence);
    }
  }
  return first;
}

// Each rule that is found is counted down where it is used.
Grammar::Closure Grammar::closureOf(bool mayHaveBytes) const {
  struct Use {
    uint32_t rule, alternative;
  };
  std::vector<Use> uses; // Later by the rule.
  Closure closure = {std::vector<bool>(rules.size(), false),
                     std::vector<uint32_t>(alternatives.size())};
  std::vector<uint32_t> owners(alternatives.size()), found;
  auto countDown = [&](uint32_t alternative) {
    const uint32_t owner = owners[alternative];
    if (closure.waitsFor[alternative] == 0 && !closure.rules[owner]) {
      closure.rules[owner] = true;
      found.push_back(owner);
    }
  };
  for (uint32_t rule = 0; rule < rules.size(); ++rule)
    for (uint32_t i = rules[rule].first; i != kNoAlternative; i = alternatives[i].next) {
      owners[i] = rule;
      for (uint32_t at = alternatives[i].element; elements[at].kind != Element::Kind::kEnd; ++at)
        if (elements[at].kind == Element::Kind::kRule) {
          uses.push_back({elements[at].index, i});
          ++closure.waitsFor[i];
        } else if (!mayHaveBytes) {
          ++closure.waitsFor[i];
        }
      countDown(i);
    }
  std::sort(uses.begin(), uses.end(), [](const Use &a, const Use &b) { return a.rule < b.rule; });
  for (size_t next = 0; next < found.size(); ++next) {
    auto use = std::lower_bound(uses.begin(), uses.end(), found[next],
                                [](const Use &a, uint32_t b) { return a.rule < b; });
    for (; use != uses.end() && use->rule == found[next]; ++use) {
      --closure.waitsFor[use->alternative];
      countDown(use->alternative);
    }
  }
  return closure;
}

// An alternative has a text once the rules in it do.
std::vector<bool> Grammar::dropUnproductive() {
  Closure productive = closureOf(true);
  for (Rule &rule : rules) {
    const uint32_t first = std::exchange(rule, {}).first;
    for (uint32_t i = first; i != kNoAlternative; i = alternatives[i].next)
      if (productive.waitsFor[i] == 0)
        append(rule, i);
    if (rule.last != kNoAlternative)
      alternatives[rule.last].next = kNoAlternative;
  }
  return std::move(productive.rules);
}

void Grammar::append(Rule &rule, uint32_t alternative) {
  if (rule.first == kNoAlternative)
    rule.first = alternative;
  else
    alternatives[rule.last].next = alternative;
  rule.last = alternative;
}

void Grammar::shrink() {
  elements.shrink_to_fit();
  rules.shrink_to_fit();
  alternatives.shrink_to_fit();
  sets.shrink_to_fit();
  setIndices.clear();
}

uint64_t Grammar::memoryBytes() const {
  return sizeof(Grammar) + elements.capacity() * sizeof(Element) + rules.capacity() * sizeof(Rule) +
         alternatives.capacity() * sizeof(Alternative) + sets.capacity() * sizeof(ByteSet);
}

// A rule can begin with those before its first element that cannot be empty. Rules are taken once
// all that they can begin with are; what is left begins with itself.
Grammar::Order Grammar::orderOfBeginnings() const {
  Order order;
  order.empty = closureOf(false).rules;
  struct Edge {
    uint32_t first, user;
  };
  std::vector<Edge> edges; // Later by the first rule.
  std::vector<uint32_t> waitsFor(rules.size());
  order.calls.assign(rules.size(), 1);
  for (uint32_t rule = 0; rule < rules.size(); ++rule) {
    anyAlternative(rule, [&](uint32_t first) {
      for (; elements[first].kind == Element::Kind::kRule; ++first) {
        edges.push_back({elements[first].index, rule});
        ++waitsFor[rule];
        if (!order.empty[elements[first].index])
          break;
      }
      return false;
    });
    if (waitsFor[rule] == 0)
      order.rules.push_back(rule);
  }
  std::sort(edges.begin(), edges.end(),
            [](const Edge &a, const Edge &b) { return a.first < b.first; });
  for (size_t next = 0; next < order.rules.size(); ++next) {
    const uint32_t rule = order.rules[next];
    auto edge = std::lower_bound(edges.begin(), edges.end(), rule,
                                 [](const Edge &a, uint32_t b) { return a.first < b; });
    for (; edge != edges.end() && edge->first == rule; ++edge) {
      order.calls[edge->user] = std::max(order.calls[edge->user], order.calls[rule] + 1);
      if (--waitsFor[edge->user] == 0)
        order.rules.push_back(edge->user);
    }
  }
  return order;
}

// The rule with the fewest of too many ways: others contain it.
std::optional<Grammar::Fault> Grammar::findFault() const {
  const Order order = orderOfBeginnings();
  if (order.rules.size() < rules.size()) {
    std::vector<bool> isOrdered(rules.size(), false);
    for (uint32_t rule : order.rules)
      isOrdered[rule] = true;
    auto rule = static_cast<uint32_t>(std::find(isOrdered.begin(), isOrdered.end(), false) -
                                      isOrdered.begin());
    // Others only use the one that comes back to itself.
    for (std::set<uint32_t> seen; seen.insert(rule).second;)
      anyAlternative(rule, [&](uint32_t first) {
        for (; elements[first].kind == Element::Kind::kRule; ++first) {
          if (!isOrdered[elements[first].index]) {
            rule = elements[first].index;
            return true;
          }
          if (!order.empty[elements[first].index])
            break;
        }
        return false;
      });
    return Fault{rule, "it refers to itself without any text between"};
  }
  const std::vector<uint32_t> ways = waysToBegin(order);
  std::optional<uint32_t> wide;
  for (uint32_t rule = 0; rule < rules.size(); ++rule) {
    if (order.calls[rule] > kMostBeginnings)
      return Fault{rule,
                   strCat(order.calls[rule], " rules begin with each other, expected at most ",
                          kMostBeginnings)};
    if (ways[rule] > kMostWays && (!wide || ways[rule] < ways[*wide]))
      wide = rule;
  }
  if (!wide)
    return {};
  return Fault{*wide, strCat("a text can begin in ", ways[*wide], " ways, expected at most ",
                             kMostWays, "; fewer alternatives or optional properties help")};
}

std::vector<uint32_t> Grammar::waysToBegin() const {
  return waysToBegin(orderOfBeginnings());
}

std::vector<uint32_t> Grammar::waysToBegin(const Order &order) const {
  std::vector<uint32_t> ways(rules.size(), 0);
  for (uint32_t rule : order.rules) {
    uint64_t sum = 0;
    anyAlternative(rule, [&](uint32_t first) {
      for (; elements[first].kind != Element::Kind::kEnd; ++first) {
        const bool isBytes = elements[first].kind == Element::Kind::kBytes;
        sum += isBytes ? 1 : ways[elements[first].index];
        if (isBytes || !order.empty[elements[first].index])
          break;
      }
      return false;
    });
    ways[rule] = static_cast<uint32_t>(std::min<uint64_t>(sum, UINT32_MAX));
  }
  return ways;
}

} // namespace moert
