#include "runtime/text/grammar/GrammarAutomaton.h"

#include <algorithm>
#include <bitset>
#include <cassert>
#include <functional>
#include <utility>

namespace moert {

/// A text that is nested deeper may not go on to nest.
constexpr uint32_t kMostDepth = 256;
/// Nodes that are tried to find the ways after one byte; those of kMostWays are far fewer.
constexpr size_t kMostTries = 4096;
/// From which on compact() is due. Expansions add kMostTries nodes twice, kMostWays ways and one
/// state at most, for which there is room beyond these.
constexpr size_t kFullNodes = 16384, kFullWays = 32768, kFullFollowers = 65536, kFullStates = 4096;
constexpr size_t kNodeSlots = 32768, kStateSlots = 2 * kFullStates;
// The start is kept too.
static_assert((GrammarAutomaton::kMostKept + 1) * GrammarAutomaton::kMostNodes < kFullNodes &&
              (GrammarAutomaton::kMostKept + 1) * Grammar::kMostWays < kFullWays);

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 29;
}

/// The place of a thing with this hash, or the free one where it belongs.
template <class Same>
static uint32_t &slotOf(std::vector<uint32_t> &table, uint64_t hash, const Same &isSame) {
  size_t slot = hash & (table.size() - 1);
  while (table[slot] != 0 && !isSame(table[slot] - 1))
    slot = (slot + 1) & (table.size() - 1);
  return table[slot];
}

GrammarAutomaton::GrammarAutomaton(const Grammar &matched) : grammar(&matched) {
  // Each set divides the classes so far into what it has and what it lacks.
  classes = 1;
  for (const ByteSet &set : grammar->byteSets()) {
    std::array<int, 512> parts;
    parts.fill(-1);
    classes = 0;
    for (unsigned byte = 0; byte < 256; ++byte) {
      int &part = parts[size_t(classOf[byte]) * 2 + set.has(static_cast<unsigned char>(byte))];
      if (part < 0)
        part = static_cast<int>(classes++);
      classOf[byte] = static_cast<uint8_t>(part);
    }
  }
  clear();
}

void GrammarAutomaton::clear() {
  nodes.clear();
  nodes.reserve(kFullNodes + 2 * kMostTries);
  nodes.push_back({0, kTextEnd, 0, 0});
  states.clear();
  states.reserve(kFullStates + 1);
  states.push_back({0, 0, false});
  ways.clear();
  ways.reserve(kFullWays + Grammar::kMostWays);
  followers.clear();
  followers.reserve(kFullFollowers + classes);
  followers.resize(classes, kNone);
  nodeTable.assign(kNodeSlots, 0);
  stateTable.assign(kStateSlots, 0);
  expansion = 0;
  beginExpansion();
  reachRule(0, kTextEnd);
  startState = endExpansion();
}

uint32_t GrammarAutomaton::nodeOf(uint32_t element, uint32_t parent) {
  uint32_t &slot = slotOf(nodeTable, mix(mix(0, element), parent), [&](uint32_t node) {
    return nodes[node].element == element && nodes[node].parent == parent;
  });
  if (slot == 0) {
    nodes.push_back({element, parent, nodes[parent].depth + 1, 0});
    slot = static_cast<uint32_t>(nodes.size());
  }
  return slot - 1;
}

GrammarAutomaton::State GrammarAutomaton::stateOfFound() {
  if (found.empty() && !foundEnd)
    return kNone;
  std::sort(found.begin(), found.end());
  uint64_t hash = foundEnd;
  for (uint32_t way : found)
    hash = mix(hash, way);
  uint32_t &slot = slotOf(stateTable, hash, [&](State state) {
    const StateEntry &entry = states[state];
    return entry.ends == foundEnd && entry.wayCount == found.size() &&
           std::equal(found.begin(), found.end(), ways.begin() + entry.firstWay);
  });
  if (slot == 0) {
    states.push_back(
        {static_cast<uint32_t>(ways.size()), static_cast<uint32_t>(found.size()), foundEnd});
    ways.insert(ways.end(), found.begin(), found.end());
    followers.resize(followers.size() + classes, kUnknown);
    slot = static_cast<uint32_t>(states.size());
  }
  return slot - 1;
}

void GrammarAutomaton::beginExpansion() {
  ++expansion;
  tries = 0;
  found.clear();
  pending.clear();
  foundEnd = false;
}

void GrammarAutomaton::reach(uint32_t element, uint32_t parent) {
  using Kind = Grammar::Element::Kind;
  for (; grammar->element(element).kind == Kind::kEnd; parent = nodes[parent].parent) {
    if (parent == kTextEnd) {
      foundEnd = true;
      return;
    }
    element = nodes[parent].element;
  }
  if (++tries > kMostTries)
    return;
  const uint32_t node = nodeOf(element, parent);
  if (std::exchange(nodes[node].lastSeen, expansion) != expansion)
    (grammar->element(element).kind == Kind::kBytes ? found : pending).push_back(node);
}

void GrammarAutomaton::reachRule(uint32_t rule, uint32_t parent) {
  grammar->anyAlternative(rule, [&](uint32_t first) {
    if (tries <= kMostTries)
      reach(first, parent);
    return tries > kMostTries;
  });
}

bool GrammarAutomaton::isTooLarge() {
  if (tries > kMostTries || found.size() > Grammar::kMostWays)
    return true;
  size_t most = 0;
  for (uint32_t way : found)
    most += nodes[way].depth;
  if (most <= kMostNodes)
    return false;
  ++expansion;
  size_t count = 0; // Those that several ways have once.
  for (uint32_t node : found)
    for (; node != kTextEnd && std::exchange(nodes[node].lastSeen, expansion) != expansion;
         node = nodes[node].parent)
      ++count;
  return count > kMostNodes;
}

GrammarAutomaton::State GrammarAutomaton::endExpansion() {
  while (!pending.empty() && tries <= kMostTries) {
    const Node node = nodes[pending.back()];
    pending.pop_back();
    // After the last element of an alternative there is nothing to come back to.
    const bool isLast = grammar->element(node.element + 1).kind == Grammar::Element::Kind::kEnd;
    const uint32_t parent = isLast ? node.parent : nodeOf(node.element + 1, node.parent);
    if (nodes[parent].depth < kMostDepth)
      reachRule(grammar->element(node.element).index, parent);
  }
  stepCount += tries;
  if (isTooLarge()) {
    lostWays = true;
    return kNone;
  }
  return stateOfFound();
}

GrammarAutomaton::State GrammarAutomaton::next(State state, unsigned char byte) {
  ++stepCount;
  const size_t place = size_t(state) * classes + classOf[byte];
  if (followers[place] != kUnknown)
    return followers[place];
  const StateEntry entry = states[state];
  stepCount += entry.wayCount;
  beginExpansion();
  for (uint32_t i = 0; i < entry.wayCount; ++i) {
    const Node way = nodes[ways[entry.firstWay + i]];
    if (grammar->byteSets()[grammar->element(way.element).index].has(byte))
      reach(way.element + 1, way.parent);
  }
  return followers[place] = endExpansion();
}

// Equal sets have the same index.
std::optional<unsigned char> GrammarAutomaton::onlyByte(State state) const {
  const StateEntry &entry = states[state];
  std::optional<uint32_t> set;
  for (uint32_t i = 0; i < entry.wayCount; ++i) {
    const uint32_t index = grammar->element(nodes[ways[entry.firstWay + i]].element).index;
    if (set.value_or(index) != index)
      return std::nullopt;
    set = index;
  }
  return set && !entry.ends ? grammar->byteSets()[*set].only() : std::nullopt;
}

bool GrammarAutomaton::hasMoreBytes(State state, size_t most) const {
  const StateEntry &entry = states[state];
  std::bitset<256> bytes;
  for (uint32_t i = 0; i < entry.wayCount && bytes.count() <= most; ++i) {
    const ByteSet &set =
        grammar->byteSets()[grammar->element(nodes[ways[entry.firstWay + i]].element).index];
    if (const std::optional<unsigned char> only = set.only())
      bytes.set(*only);
    else
      for (unsigned byte = 0; byte < 256; ++byte)
        if (set.has(static_cast<unsigned char>(byte)))
          bytes.set(byte);
  }
  return bytes.count() > most;
}

bool GrammarAutomaton::isFull() const {
  return nodes.size() >= kFullNodes || ways.size() >= kFullWays || states.size() >= kFullStates ||
         followers.size() >= kFullFollowers;
}

GrammarAutomaton::GrammarAutomaton(const GrammarAutomaton &full, std::span<State> kept)
    : grammar(full.grammar), classOf(full.classOf), classes(full.classes), lostWays(full.lostWays),
      stepCount(full.stepCount) {
  clear();
  std::vector<uint32_t> copies(full.nodes.size(), kTextEnd);
  // Parents have lower numbers than their children, so that they are copied before these.
  const std::function<uint32_t(uint32_t)> copy = [&](uint32_t node) {
    if (node != kTextEnd && copies[node] == kTextEnd)
      copies[node] = nodeOf(full.nodes[node].element, copy(full.nodes[node].parent));
    return copies[node];
  };
  assert(kept.size() <= kMostKept);
  for (State &state : kept) {
    const StateEntry &entry = full.states[state];
    beginExpansion();
    foundEnd = entry.ends;
    for (uint32_t i = 0; i < entry.wayCount; ++i)
      found.push_back(copy(full.ways[entry.firstWay + i]));
    state = stateOfFound();
  }
}

void GrammarAutomaton::compact(std::span<State> kept) {
  *this = GrammarAutomaton(*this, kept);
}

} // namespace moert
