#include "runtime/policy/PrefetchList.h"

#include <algorithm>
#include <cassert>

namespace moert {

// Prefetches of layers further away than this are cancelled, so that no more are there at a time.
static size_t mostPrefetches(const DirectorySize &size) {
  return kMostAhead * size.widestLayer;
}

PrefetchList::PrefetchList(const DirectorySize &size) : widestLayer(size.widestLayer) {
  candidates.resize(mostPrefetches(size));
  for (std::vector<uint32_t> *list : {&pending, &begun, &cancelledIds, &retainedIds})
    list->reserve(mostPrefetches(size));
  usefulIds.reserve(widestLayer);
  selected.reserve(widestLayer);
  leaving.reserve(widestLayer);
}

void PrefetchList::name(const LayerPrefetch &prefetch) {
  size_t index = 0;
  while (index < namedCount && named[index].layer != prefetch.layer)
    ++index;
  if (index == kMostAhead)
    return;
  namedCount = std::max(namedCount, index + 1);
  size_t count =
      std::min<size_t>({prefetch.candidates.size(), prefetch.rule.candidates, widestLayer});
  named[index] = {prefetch.layer, prefetch.rule, count};
  std::copy_n(prefetch.candidates.begin(), count, slot(index).begin());
}

uint32_t PrefetchList::distanceTo(const CacheDirectory &directory, uint32_t id) const {
  uint32_t layers = static_cast<uint32_t>(directory.layerCount());
  return (directory.at(id).layer + layers - passLayer) % layers;
}

bool PrefetchList::isAhead(const CacheDirectory &directory, uint32_t id) const {
  uint32_t distance = distanceTo(directory, id);
  return distance > 0 && distance <= kMostAhead;
}

void PrefetchList::forgetPassed(const CacheDirectory &directory) {
  std::erase_if(pending, [&](uint32_t id) { return !isAhead(directory, id); });
}

void PrefetchList::beginPass(CacheDirectory &directory, uint32_t layer) {
  passLayer = layer;
  usefulIds.clear();
  cancelledIds.clear();
  forgetPassed(directory);
  uint64_t laterPages = 0;
  std::erase_if(begun, [&](uint32_t id) {
    if (isAhead(directory, id)) {
      laterPages += directory.at(id).pages;
      return false;
    }
    bool isWanted = directory.at(id).isWanted;
    (isWanted ? usefulIds : cancelledIds).push_back(id);
    return true;
  });
  for (uint32_t id : usefulIds)
    directory.claimPrefetch(id);
  while (!begun.empty() && !directory.demandFitsBeside(laterPages)) {
    laterPages -= directory.at(begun.back()).pages;
    cancelledIds.push_back(begun.back());
    begun.pop_back();
  }
}

void PrefetchList::select(CacheDirectory &directory) {
  retainedIds.clear();
  for (size_t i = 0; i < namedCount; ++i) {
    const Named &prefetch = named[i];
    std::erase_if(pending, [&](uint32_t id) { return directory.at(id).layer == prefetch.layer; });
    selected.clear();
    leaving.clear();
    selectPrefetches(prefetch.rule, directory, prefetch.layer, slot(i).first(prefetch.count),
                     selected, leaving);
    for (uint32_t id : leaving)
      if (isAhead(directory, id) && directory.canRetain(id)) {
        directory.retainAsPrefetch(id);
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

void PrefetchList::begin(CacheDirectory &directory) {
  assert(hasNext());
  directory.holdPrefetch(pending.front());
  begun.push_back(pending.front());
  pending.erase(pending.begin());
}

void PrefetchList::forget(uint32_t id) {
  std::erase(begun, id);
}

void PrefetchList::cancelAll() {
  cancelledIds.assign(begun.begin(), begun.end());
  begun.clear();
  pending.clear();
  namedCount = 0;
}

} // namespace moert
