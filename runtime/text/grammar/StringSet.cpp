#include "runtime/text/grammar/StringSet.h"

#include "runtime/base/Utf8.h"

#include <algorithm>

namespace moert {

StringSets::StringSets() {
  clear();
}

void StringSets::clear() {
  nodes.clear();
  numbers.clear();
  contentCount = 0;
  numberOf(Kind::kNone, {}, false);
  numberOf(Kind::kEmptyText, {}, true);
  numberOf(Kind::kNot, {kNone}, true);
}

StringSets::Set StringSets::numberOf(Kind kind, std::vector<uint32_t> parts, bool hasEmptyText,
                                     const CodePointSet &characters) {
  ++stepCount;
  const auto found = numbers.find({kind, parts, characters});
  if (found != numbers.end())
    return found->second;
  if (isFull() && nodes.size() > kAll) // The constants are always there.
    return kNone;
  const auto added = static_cast<Set>(nodes.size());
  const auto place = numbers.emplace(Key{kind, std::move(parts), characters}, added).first;
  contentCount += characters.ranges().size() + std::get<1>(place->first).size();
  nodes.push_back({kind, hasEmptyText, lengthsOf(kind, std::get<1>(place->first)), &place->first});
  return added;
}

// Expressions share parts: a walk through all of them would take exponential time.
StringSets::Lengths StringSets::lengthsOf(Kind kind, const std::vector<uint32_t> &parts) const {
  auto sum = [](uint32_t a, uint32_t b) { return b > kUnbounded - a ? kUnbounded : a + b; };
  auto times = [](uint32_t length, uint32_t count) {
    const uint64_t product = uint64_t(length) * count;
    return static_cast<uint32_t>(std::min<uint64_t>(product, kUnbounded));
  };
  switch (kind) {
  case Kind::kEmptyText:
    return {0, 0};
  case Kind::kCharacter:
    return {1, 1};
  case Kind::kThen: {
    const Lengths first = lengthsOf(parts[0]), rest = lengthsOf(parts[1]);
    return {sum(first.least, rest.least), sum(first.most, rest.most)};
  }
  case Kind::kRepeat: {
    const Lengths part = lengthsOf(parts[0]);
    return {times(part.least, parts[1]), times(part.most, parts[2])};
  }
  case Kind::kAny:
  case Kind::kEach: {
    Lengths all = lengthsOf(parts[0]);
    for (const Set part : parts) {
      const Lengths one = lengthsOf(part);
      all = kind == Kind::kAny
                ? Lengths{std::min(all.least, one.least), std::max(all.most, one.most)}
                : Lengths{std::max(all.least, one.least), std::min(all.most, one.most)};
    }
    return all;
  }
  case Kind::kNone:
  case Kind::kNot:
    break;
  }
  return {0, kUnbounded};
}

StringSets::Set StringSets::character(const CodePointSet &allowed) {
  return allowed.isEmpty() ? kNone : numberOf(Kind::kCharacter, {}, false, allowed);
}

StringSets::Set StringSets::text(std::string_view utf8) {
  std::vector<uint32_t> characters;
  for (size_t i = 0; i < utf8.size(); i += utf8Length(utf8[i]))
    characters.push_back(firstCodePoint(utf8.substr(i)).value);
  Set all = kEmptyText;
  for (size_t i = characters.size(); i-- > 0;)
    all = concatenation(character({characters[i], characters[i]}), all);
  return all;
}

// Concatenations end in concatenations.
StringSets::Set StringSets::concatenation(Set first, Set rest) {
  if (first == kNone || rest == kNone)
    return kNone;
  if (first == kEmptyText || (first == kAll && rest == kAll))
    return rest;
  if (rest == kEmptyText)
    return first;
  if (nodes[first].kind == Kind::kThen) {
    const Set begin = nodes[first].parts()[0], end = nodes[first].parts()[1];
    return concatenation(begin, concatenation(end, rest));
  }
  return numberOf(Kind::kThen, {first, rest}, hasEmptyText(first) && hasEmptyText(rest));
}

StringSets::Set StringSets::unionOf(std::vector<Set> sets) {
  std::vector<uint32_t> parts;
  std::vector<CodePointSet::Range> characters;
  bool hasEmpty = false;
  for (size_t i = 0; i < sets.size(); ++i) {
    const Node &node = nodes[sets[i]];
    hasEmpty = hasEmpty || node.hasEmptyText;
    if (sets[i] == kAll)
      return kAll;
    if (node.kind == Kind::kAny)
      sets.insert(sets.end(), node.parts().begin(), node.parts().end());
    else if (node.kind == Kind::kCharacter)
      characters.insert(characters.end(), node.characters().ranges().begin(),
                        node.characters().ranges().end());
    else if (sets[i] != kNone && sets[i] != kEmptyText)
      parts.push_back(sets[i]);
  }
  if (!characters.empty())
    parts.push_back(character(CodePointSet(std::move(characters))));
  if (hasEmpty &&
      std::none_of(parts.begin(), parts.end(), [&](Set set) { return hasEmptyText(set); }))
    parts.push_back(kEmptyText);
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  if (parts.size() < 2)
    return parts.empty() ? kNone : parts[0];
  return numberOf(Kind::kAny, parts, hasEmpty);
}

StringSets::Set StringSets::intersection(std::vector<Set> sets) {
  std::vector<uint32_t> parts;
  bool allEmpty = true;
  for (size_t i = 0; i < sets.size(); ++i) {
    const Node &node = nodes[sets[i]];
    allEmpty = allEmpty && node.hasEmptyText;
    if (sets[i] == kNone)
      return kNone;
    if (node.kind == Kind::kEach)
      sets.insert(sets.end(), node.parts().begin(), node.parts().end());
    else if (sets[i] != kAll)
      parts.push_back(sets[i]);
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  if (!parts.empty() && parts[0] == kEmptyText)
    return allEmpty ? kEmptyText : kNone;
  if (parts.size() < 2)
    return parts.empty() ? kAll : parts[0];
  return numberOf(Kind::kEach, parts, allEmpty);
}

StringSets::Set StringSets::complement(Set excluded) {
  if (nodes[excluded].kind == Kind::kNot)
    return nodes[excluded].parts()[0];
  return numberOf(Kind::kNot, {excluded}, !hasEmptyText(excluded));
}

StringSets::Set StringSets::repetition(Set repeated, uint32_t least, uint32_t most) {
  if (most == 0 || repeated == kEmptyText)
    return kEmptyText;
  if (repeated == kNone)
    return least == 0 ? kEmptyText : kNone;
  const Node &node = nodes[repeated];
  const bool isAll = repeated == kAll || (node.kind == Kind::kRepeat && node.parts()[1] == 0 &&
                                          node.parts()[2] == kUnbounded);
  if (isAll || (least == 1 && most == 1))
    return repeated;
  if (node.hasEmptyText)
    least = 0;
  if (least == 0 && most == kUnbounded && node.kind == Kind::kCharacter &&
      node.characters() == CodePointSet::all())
    return kAll;
  return numberOf(Kind::kRepeat, {repeated, least, most}, least == 0);
}

StringSets::Set StringSets::ofLength(uint32_t least, uint32_t most) {
  return repetition(character(CodePointSet::all()), least, most);
}

// The parts are copied, since making sets moves the nodes.
StringSets::Set StringSets::after(Set set, uint32_t codePoint) {
  const Node node = nodes[set];
  if (++stepCount > stepLimit)
    return kNone;
  std::vector<Set> rests;
  switch (node.kind) {
  case Kind::kNone:
  case Kind::kEmptyText:
    return kNone;
  case Kind::kCharacter:
    return node.characters().has(codePoint) ? kEmptyText : kNone;
  case Kind::kThen: {
    const Set first = node.parts()[0], rest = node.parts()[1];
    rests.push_back(concatenation(after(first, codePoint), rest));
    if (hasEmptyText(first))
      rests.push_back(after(rest, codePoint));
    return unionOf(std::move(rests));
  }
  case Kind::kAny:
  case Kind::kEach:
    for (Set part : node.parts())
      rests.push_back(after(part, codePoint));
    return node.kind == Kind::kAny ? unionOf(std::move(rests)) : intersection(std::move(rests));
  case Kind::kNot:
    return complement(after(node.parts()[0], codePoint));
  case Kind::kRepeat: {
    const uint32_t repeated = node.parts()[0], least = node.parts()[1], most = node.parts()[2];
    return concatenation(
        after(repeated, codePoint),
        repetition(repeated, least == 0 ? 0 : least - 1, most == kUnbounded ? most : most - 1));
  }
  }
  return kNone;
}

void StringSets::addBoundaries(Set set, std::set<uint32_t> &boundaries,
                               std::set<Set> &visited) const {
  if (!visited.insert(set).second)
    return;
  const Node &node = nodes[set];
  for (const auto &[first, last] : node.characters().ranges())
    boundaries.insert({first, last + 1});
  const size_t parts = node.kind == Kind::kRepeat ? 1 : node.parts().size();
  for (size_t i = 0; i < parts; ++i) {
    addBoundaries(node.parts()[i], boundaries, visited);
    if (node.kind == Kind::kThen && !hasEmptyText(node.parts()[i]))
      break;
  }
}

std::vector<StringSets::Step> StringSets::steps(Set set) {
  std::set<uint32_t> boundaries = {0, CodePointSet::kLast + 1};
  std::set<Set> visited;
  addBoundaries(set, boundaries, visited);
  std::map<Set, std::vector<CodePointSet::Range>> byRest;
  for (auto next = boundaries.begin(); *next <= CodePointSet::kLast;) {
    const uint32_t first = *next++;
    if (const Set rest = after(set, first); rest != kNone)
      byRest[rest].push_back({first, *next - 1});
  }
  std::vector<Step> found;
  for (auto &[rest, ranges] : byRest)
    found.push_back({CodePointSet(std::move(ranges)), rest});
  return found;
}

bool StringSets::has(Set set, std::string_view utf8) {
  for (size_t i = 0; i < utf8.size() && set != kAll; i += utf8Length(utf8[i]))
    set = after(set, firstCodePoint(utf8.substr(i)).value);
  return hasEmptyText(set);
}

} // namespace moert
