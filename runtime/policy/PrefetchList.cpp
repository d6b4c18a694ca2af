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
  for (std::vector<uint32_t> *list : {&pending, &begun, &cancelledIds})
    list->reserve(mostPrefetches(size));
  toRead.reserve(widestLayer);
  leaving.reserve(widestLayer);
  expected.resize(size.experts);
  slicesToRead.resize(size.experts);
}

void PrefetchList::nominate(const CacheDirectory &directory, const LayerPrefetch &prefetch) {
  if (prefetch.rule.predictor == Predictor::kOff)
    return;
  size_t index = 0;
  while (index < namedCount && named[index].layer != prefetch.layer)
    ++index;
  if (index == kMostAhead)
    return;
  namedCount = std::max(namedCount, index + 1);
  named[index] = {prefetch.layer, prefetch.rule};
  const size_t count =
      std::min<size_t>({prefetch.candidates.size(), prefetch.rule.candidates, widestLayer});
  for (size_t i = 0; i < count; ++i) {
    const uint32_t id = directory.idOf(prefetch.layer, prefetch.candidates[i].expert);
    const DirectoryEntry &entry = directory.at(id);
    const bool isPart =
        !prefetch.slices.empty() && (entry.hasCopies() || directory.cacheRules().baseSlices > 0);
    const uint16_t all = entry.unit.slices,
                   slices = isPart ? std::min(all, prefetch.slices[i]) : all;
    if (slices > 0)
      candidates[index * widestLayer + named[index].count++] = {
          id, prefetch.candidates[i].probability, slices};
  }
}

uint32_t PrefetchList::distanceTo(const CacheDirectory &directory, uint32_t layer) const {
  uint32_t layers = static_cast<uint32_t>(directory.layerCount());
  return (layer + layers - passLayer) % layers;
}

bool PrefetchList::isAhead(const CacheDirectory &directory, uint32_t layer) const {
  uint32_t distance = distanceTo(directory, layer);
  return distance > 0 && distance <= kMostAhead;
}

void PrefetchList::beginPass(const CacheDirectory &directory, uint32_t layer) {
  passLayer = layer;
  cancelledIds.clear();
  expectNothing(directory, layer);
  auto isLater = [&](uint32_t id) { return isAhead(directory, directory.at(id).layer); };
  std::erase_if(pending, [&](uint32_t id) { return !isLater(id); });
  uint64_t laterPages = 0;
  std::erase_if(begun, [&](uint32_t id) {
    if (isLater(id)) {
      laterPages += directory.pagesHeldBy(id);
      return false;
    }
    if (!directory.at(id).isWanted)
      cancelledIds.push_back(id);
    return true;
  });
  while (!begun.empty() && !directory.demandFitsBeside(laterPages)) {
    laterPages -= directory.pagesHeldBy(begun.back());
    cancelledIds.push_back(begun.back());
    begun.pop_back();
  }
}

/// Whether an expert is in memory, will leave, and has the copy that the candidate expects, so that
/// it can stay as a prefetch.
static bool canStay(const CacheDirectory &directory, uint32_t id, uint16_t slices) {
  const CacheUnit &unit = directory.at(id).unit;
  const std::span<const uint32_t> unkept = directory.unkept();
  return unit.isHeld() && unit.firstOf(unit.slicesPresent) == unit.firstOf(slices) &&
         std::ranges::find(unkept, id) != unkept.end();
}

/// Divides the candidates, likeliest first: absent experts are to be read, within the rule's
/// limits; experts that are in memory and will leave need no read and do not count as one. Where
/// such a one has another copy than is expected, the demand reads it.
void PrefetchList::choose(const CacheDirectory &directory, const Named &prefetch,
                          std::span<const Candidate> likeliest) {
  toRead.clear();
  leaving.clear();
  for (const Candidate &candidate : likeliest) {
    if (toRead.size() == prefetch.rule.reads ||
        candidate.probability < prefetch.rule.minProbability)
      return;
    const uint32_t id = candidate.id;
    const DirectoryEntry &entry = directory.at(id);
    if (!entry.isHeld() && !entry.isPrefetch()) {
      toRead.push_back(id);
      slicesToRead[id] = candidate.slices;
    } else if (canStay(directory, id, candidate.slices)) {
      leaving.push_back(id);
    }
  }
}

/// Like choose(), but does not depend on which prefetches have begun or have room.
void PrefetchList::expect(const CacheDirectory &directory, const Named &prefetch,
                          std::span<const Candidate> likeliest) {
  uint32_t reads = 0;
  for (const Candidate &candidate : likeliest) {
    if (reads == prefetch.rule.reads || candidate.probability < prefetch.rule.minProbability)
      return;
    const uint32_t id = candidate.id;
    const bool isHeld = directory.at(id).isHeld();
    reads += !isHeld;
    // An expert that is held and stays is resident anyway, with the slices that it has. An expert
    // that leaves with another copy than this is not read for the rule.
    const bool isFromRule = !isHeld || canStay(directory, id, candidate.slices);
    expected[id] = isFromRule ? candidate.slices : uint16_t(0);
  }
}

void PrefetchList::expectNothing(const CacheDirectory &directory, uint32_t layer) {
  std::fill_n(expected.begin() + directory.idOf(layer, 0), directory.expertsIn(layer), uint16_t(0));
}

/// Whether all candidates that the rule would read count as in memory
/// (CacheMachine::slicesCounted): they are held, or an earlier layer's prediction has selected
/// them. Not whether they have arrived.
bool PrefetchList::countsAsPresent(const CacheDirectory &directory, const Named &prefetch,
                                   std::span<const Candidate> likeliest) const {
  return std::ranges::all_of(likeliest, [&](const Candidate &candidate) {
    return candidate.probability < prefetch.rule.minProbability || expected[candidate.id] > 0 ||
           directory.at(candidate.id).isHeld();
  });
}

uint32_t PrefetchList::selectFor(CacheDirectory &directory, const Named &prefetch,
                                 std::span<const Candidate> likeliest) {
  const uint32_t layer = prefetch.layer;
  expectNothing(directory, layer);
  std::erase_if(pending, [&](uint32_t id) { return directory.at(id).layer == layer; });
  if (!directory.isPrefetchable(layer))
    return 0;
  expect(directory, prefetch, likeliest);
  choose(directory, prefetch, likeliest);
  uint32_t retained = 0;
  for (uint32_t id : leaving)
    if (directory.canRetain(id)) {
      directory.apply(id, UnitEvent::kRetained);
      begun.push_back(id);
      ++retained;
    }
  auto place = std::ranges::find_if(pending, [&](uint32_t id) {
    return distanceTo(directory, directory.at(id).layer) > distanceTo(directory, layer);
  });
  pending.insert(place, toRead.begin(), toRead.end());
  return retained;
}

uint32_t PrefetchList::select(CacheDirectory &directory) {
  uint32_t retained = 0;
  bool areNearerPresent = true; // All candidates of nearer layers.
  for (uint32_t distance = 1; distance <= kMostAhead; ++distance)
    for (size_t i = 0; i < namedCount; ++i) {
      if (distanceTo(directory, named[i].layer) != distance ||
          (named[i].rule.predictor == Predictor::kAdaptiveGate && !areNearerPresent))
        continue;
      areNearerPresent = areNearerPresent && countsAsPresent(directory, named[i], candidatesOf(i));
      retained += selectFor(directory, named[i], candidatesOf(i));
    }
  namedCount = 0;
  return retained;
}

void PrefetchList::begin() {
  assert(hasNext());
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
  std::fill(expected.begin(), expected.end(), uint16_t(0));
}

} // namespace moert
