#include "runtime/policy/PromotionList.h"

#include <algorithm>

namespace moert {

PromotionList::PromotionList(const ExchangeRule &exchange, const DirectorySize &size)
    : rule(exchange) {
  if (!exchanges())
    return;
  promotions.reserve(size.experts);
  cancelledIds.reserve(size.experts);
  leaving.reserve(size.widestLayer);
}

void PromotionList::beginPass(const CacheDirectory &directory, uint32_t layer) {
  passLayer = layer;
  cancelledIds.clear();
  for (uint32_t id : directory.wanted())
    (void)remove(id);
  while (!promotions.empty() && !directory.demandFitsBeside(pages))
    cancelLast();
}

size_t PromotionList::placeOf(uint32_t id) const {
  size_t place = 0;
  while (place < promotions.size() && promotions[place].id != id)
    ++place;
  return place;
}

void PromotionList::removeAt(size_t place) {
  begunCount -= promotions[place].isBegun;
  pages -= promotions[place].pages;
  promotions.erase(promotions.begin() + static_cast<ptrdiff_t>(place));
}

void PromotionList::cancelLast() {
  if (promotions.back().isBegun)
    cancelledIds.push_back(promotions.back().id);
  removeAt(promotions.size() - 1);
}

/// Turns of the layers are spread over the tokens of a round.
bool PromotionList::isTurn(const CacheDirectory &directory) const {
  if (!exchanges() || directory.passTokens() != 1 || !directory.repeatsEveryStep(passLayer))
    return false;
  const uint64_t place = directory.placeOf(passLayer), layers = directory.layersInCycle();
  return (directory.turnsOf(passLayer) + place * rule.everyTokens / layers) % rule.everyTokens == 0;
}

void PromotionList::endPass(const CacheDirectory &directory) {
  if (!isTurn(directory) || !directory.isPrefetchable(passLayer))
    return;
  const uint32_t first = directory.idOf(passLayer, 0);
  uint32_t best = UINT32_MAX;
  uint64_t importance = 0; // An expert without any is not read, not even into free pages.
  for (uint32_t id = first; id < first + directory.expertsIn(passLayer); ++id) {
    if (directory.at(id).unit.state != UnitState::kAbsent ||
        directory.at(id).history.importance <= importance || placeOf(id) < promotions.size())
      continue;
    best = id;
    importance = directory.at(id).history.importance;
  }
  if (importance == 0 || pages + directory.at(best).pages.most() > directory.pagesInStaging() ||
      !directory.selectLeaving(best, leaving))
    return;
  // The layer pass before the layer's own turn; one layer pass at least, so that there is time.
  const uint64_t passes = uint64_t(rule.afterTokens) * directory.layersInCycle() - 1;
  promotions.push_back({best, directory.passesBegun() + std::max<uint64_t>(1, passes),
                        directory.at(best).pages.most(), false});
  pages += promotions.back().pages;
}

const PromotionList::Promotion *PromotionList::due(const CacheDirectory &directory) const {
  const bool isDue = !promotions.empty() && promotions.front().duePass <= directory.passesBegun();
  return isDue ? &promotions.front() : nullptr;
}

bool PromotionList::remove(uint32_t id) {
  const size_t place = placeOf(id);
  if (place == promotions.size())
    return false;
  removeAt(place);
  return true;
}

void PromotionList::cancelAll() {
  cancelledIds.clear();
  while (!promotions.empty())
    cancelLast();
}

} // namespace moert
