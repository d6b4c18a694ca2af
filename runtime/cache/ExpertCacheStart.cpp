// What happens to the cache before and between prompts.
#include "runtime/cache/ExpertCache.h"

namespace moert {

Status ExpertCache::fill(uint32_t layer, const PassDemand &demand) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "fill"));
  if (layer >= layers.size())
    return failed(fileName, ": fill of ", layer, ", there are ", layers.size());
  std::vector<uint32_t> fitting, uses;
  if (!directory.selectFitting(layer, demand, fitting, uses))
    return refuseDemand(layer, demand.wanted);
  CacheStats before = closedStats;
  MOERT_RETURN_IF_ERROR(beginLayer(layer, {fitting, uses, demand.tokens}));
  while (true) {
    MOERT_ASSIGN_OR_RETURN(int index, nextReady());
    if (index < 0)
      break;
    MOERT_RETURN_IF_ERROR(release(index));
  }
  MOERT_RETURN_IF_ERROR(endLayer());
  closedStats = before;
  return {};
}

Status ExpertCache::beginPrompt() {
  MOERT_RETURN_IF_ERROR(checkCall(false, "beginPrompt"));
  drain();
  MOERT_RETURN_IF_ERROR(checkCall(false, "beginPrompt"));
  letAllPrefetchesGo();
  if (directory.cacheRules().survival == PromptSurvival::kPins)
    for (uint32_t id = 0; id < experts.size(); ++id)
      if (experts[id].slicesReady > 0 && directory.at(id).pins == 0)
        evict(id);
  directory.beginPrompt();
  return {};
}

Status ExpertCache::pin(uint32_t layer, uint32_t expert) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "pin"));
  if (layer >= layers.size() || expert >= layers[layer].records.size())
    return failed(fileName, ": there is no expert ", expert, " of layer ", layer, " to pin");
  uint32_t id = directory.idOf(layer, expert);
  if (!directory.pin(id))
    return invalidInput(fileName, ": ", nameOf(id), ": pinning it needs ",
                        directory.pinnedPages(id) + directory.at(id).pages,
                        " pages with the ones pinned before, the layer has ",
                        directory.pinLimitPages(id));
  return {};
}

Status ExpertCache::unpin(uint32_t layer, uint32_t expert) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "unpin"));
  if (layer >= layers.size() || expert >= layers[layer].records.size() ||
      directory.at(directory.idOf(layer, expert)).pins == 0)
    return failed(fileName, ": expert ", expert, " of layer ", layer, " is not pinned");
  directory.unpin(directory.idOf(layer, expert));
  return {};
}

} // namespace moert
