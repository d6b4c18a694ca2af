// What happens to the cache before and between prompts.
#include "runtime/experts/ExpertCache.h"

namespace moert {

Status ExpertCache::fill(uint32_t layer, const PassDemand &demand) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "fill"));
  if (layer >= layers.size())
    return failed(fileName, ": fill of ", layer, ", there are ", layers.size());
  std::vector<uint32_t> fitting, uses;
  if (!machine.state().selectFitting(layer, demand, fitting, uses))
    return refuseDemand(layer, demand.wanted);
  const CacheCounts counts = closedCounts;
  const CacheTimes times = closedTimes;
  MOERT_RETURN_IF_ERROR(beginLayer(layer, {fitting, uses, demand.tokens}));
  while (true) {
    MOERT_ASSIGN_OR_RETURN(int index, nextReady());
    if (index < 0)
      break;
    MOERT_RETURN_IF_ERROR(release(index));
  }
  MOERT_RETURN_IF_ERROR(endLayer());
  closedCounts = counts;
  closedTimes = times;
  return {};
}

Status ExpertCache::beginPrompt() {
  MOERT_RETURN_IF_ERROR(checkCall(false, "beginPrompt"));
  drain();
  MOERT_RETURN_IF_ERROR(checkCall(false, "beginPrompt"));
  machine.beginPrompt();
  return act();
}

Status ExpertCache::pin(uint32_t layer, uint32_t expert) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "pin"));
  if (layer >= layers.size() || expert >= layers[layer].records.size())
    return failed(fileName, ": there is no expert ", expert, " of layer ", layer, " to pin");
  const CacheDirectory &directory = machine.state();
  const uint32_t id = directory.idOf(layer, expert);
  if (!machine.pin(id))
    return invalidInput(fileName, ": ", nameOf(id), ": pinning it needs ",
                        directory.pinnedPages(id) + directory.at(id).pages.most(),
                        " pages with the ones pinned before, the layer has ",
                        directory.pinLimitPages(id));
  return {};
}

Status ExpertCache::unpin(uint32_t layer, uint32_t expert) {
  MOERT_RETURN_IF_ERROR(checkCall(false, "unpin"));
  if (layer >= layers.size() || expert >= layers[layer].records.size() ||
      machine.at(machine.state().idOf(layer, expert)).pins == 0)
    return failed(fileName, ": expert ", expert, " of layer ", layer, " is not pinned");
  machine.unpin(machine.state().idOf(layer, expert));
  return {};
}

} // namespace moert
