#include "runtime/policy/GuessList.h"

#include <algorithm>
#include <cassert>

namespace moert {

// Guesses of layers further away than this are refuted, so that no more are there at a time.
static size_t mostGuesses(const DirectorySize &size) {
  return kMostAhead * size.widestLayer;
}

GuessList::GuessList(const DirectorySize &size) : widestLayer(size.widestLayer) {
  candidates.resize(mostGuesses(size));
  for (std::vector<uint32_t> *list : {&pending, &begun, &refutedIds, &retainedIds})
    list->reserve(mostGuesses(size));
  adoptedIds.reserve(widestLayer);
  selected.reserve(widestLayer);
  leaving.reserve(widestLayer);
}

void GuessList::name(const LayerGuess &guess) {
  size_t index = 0;
  while (index < namedCount && named[index].layer != guess.layer)
    ++index;
  if (index == kMostAhead)
    return;
  namedCount = std::max(namedCount, index + 1);
  size_t count = std::min<size_t>({guess.candidates.size(), guess.rule.candidates, widestLayer});
  named[index] = {guess.layer, guess.rule, count};
  std::copy_n(guess.candidates.begin(), count, slot(index).begin());
}

uint32_t GuessList::distanceTo(const CacheDirectory &directory, uint32_t id) const {
  uint32_t layers = static_cast<uint32_t>(directory.layerCount());
  return (directory.at(id).layer + layers - playedLayer) % layers;
}

bool GuessList::isAhead(const CacheDirectory &directory, uint32_t id) const {
  uint32_t distance = distanceTo(directory, id);
  return distance > 0 && distance <= kMostAhead;
}

void GuessList::forgetPassed(const CacheDirectory &directory) {
  std::erase_if(pending, [&](uint32_t id) { return !isAhead(directory, id); });
}

void GuessList::beginPlay(CacheDirectory &directory, uint32_t layer) {
  playedLayer = layer;
  adoptedIds.clear();
  refutedIds.clear();
  forgetPassed(directory);
  uint64_t laterPages = 0;
  std::erase_if(begun, [&](uint32_t id) {
    if (isAhead(directory, id)) {
      laterPages += directory.at(id).pages;
      return false;
    }
    bool isWanted = directory.at(id).isWanted;
    (isWanted ? adoptedIds : refutedIds).push_back(id);
    return true;
  });
  for (uint32_t id : adoptedIds)
    directory.adoptGuess(id);
  while (!begun.empty() && !directory.demandFitsBeside(laterPages)) {
    laterPages -= directory.at(begun.back()).pages;
    refutedIds.push_back(begun.back());
    begun.pop_back();
  }
}

void GuessList::select(CacheDirectory &directory) {
  retainedIds.clear();
  for (size_t i = 0; i < namedCount; ++i) {
    const Named &guess = named[i];
    std::erase_if(pending, [&](uint32_t id) { return directory.at(id).layer == guess.layer; });
    selected.clear();
    leaving.clear();
    selectGuesses(guess.rule, directory, guess.layer, slot(i).first(guess.count), selected,
                  leaving);
    for (uint32_t id : leaving)
      if (isAhead(directory, id) && directory.canRetain(id)) {
        directory.retainAsGuess(id);
        begun.push_back(id);
        retainedIds.push_back(id);
      }
    if (selected.empty() || !isAhead(directory, selected[0]))
      continue;
    auto place = std::find_if(pending.begin(), pending.end(), [&](uint32_t id) {
      return distanceTo(directory, id) > distanceTo(directory, selected[0]);
    });
    pending.insert(place, selected.begin(), selected.end());
  }
  namedCount = 0;
}

void GuessList::begin(CacheDirectory &directory) {
  assert(hasNext());
  directory.holdGuess(pending.front());
  begun.push_back(pending.front());
  pending.erase(pending.begin());
}

void GuessList::forget(uint32_t id) {
  std::erase(begun, id);
}

void GuessList::refuteAll() {
  refutedIds.assign(begun.begin(), begun.end());
  begun.clear();
  pending.clear();
  namedCount = 0;
}

} // namespace moert
