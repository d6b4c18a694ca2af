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
    (void)remove(directory, id);
  while (!promotions.empty() && !directory.demandFitsBeside(pages)) {
    pages -= directory.at(promotions.back().id).pages;
    cancelLast();
  }
}

void PromotionList::cancelLast() {
  if (promotions.back().isBegun) {
    cancelledIds.push_back(promotions.back().id);
    --begunCount;
  }
  promotions.pop_back();
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
    auto isThis = [id](const Promotion &promotion) { return promotion.id == id; };
    if (directory.at(id).unit.state != UnitState::kAbsent ||
        directory.at(id).history.importance <= importance ||
        std::find_if(promotions.begin(), promotions.end(), isThis) != promotions.end())
      continue;
    best = id;
    importance = directory.at(id).history.importance;
  }
  if (importance == 0 || pages + directory.at(best).pages > directory.pagesInStaging() ||
      !directory.selectLeaving(best, leaving))
    return;
  // The layer pass before the layer's own turn; one layer pass at least, so that there is time.
  const uint64_t passes = uint64_t(rule.afterTokens) * directory.layersInCycle() - 1;
  promotions.push_back({best, directory.passesBegun() + std::max<uint64_t>(1, passes), false});
  pages += directory.at(best).pages;
}

const PromotionList::Promotion *PromotionList::due(const CacheDirectory &directory) const {
  const bool isDue = !promotions.empty() && promotions.front().duePass <= directory.passesBegun();
  return isDue ? &promotions.front() : nullptr;
}

bool PromotionList::remove(const CacheDirectory &directory, uint32_t id) {
  auto isThis = [id](const Promotion &promotion) { return promotion.id == id; };
  const auto found = std::find_if(promotions.begin(), promotions.end(), isThis);
  if (found == promotions.end())
    return false;
  begunCount -= found->isBegun;
  pages -= directory.at(id).pages;
  promotions.erase(found);
  return true;
}

void PromotionList::cancelAll() {
  cancelledIds.clear();
  while (!promotions.empty())
    cancelLast();
  pages = 0;
}

} // namespace moert
