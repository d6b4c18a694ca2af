#include "runtime/engine/PlannedCache.h"

#include "runtime/base/Excerpt.h"
#include "runtime/engine/Footprint.h"

#include <algorithm>
#include <tuple>

namespace moert {

//===-- The choice ----------------------------------------------------------------------------===//

// A plan made without a preset is identified by its name.
static const std::string &presetOf(const Plan &plan) {
  return plan.preset.empty() ? plan.name : plan.preset;
}

static Status refusePreset(const Model &model, const std::string &preset) {
  std::vector<std::string> held;
  for (const Plan &plan : model.artifact().plans)
    if (std::find(held.begin(), held.end(), presetOf(plan)) == held.end())
      held.push_back(presetOf(plan));
  std::string list;
  for (const std::string &one : held)
    list += strCat(list.empty() ? "'" : ", '", one, "'");
  return invalidInput(model.path(), " holds no plan of '", excerpt(preset),
                      "', expected one of its own: ", list,
                      "; moec replan makes an artifact with another");
}

Result<std::vector<uint32_t>> plansToChooseFrom(const Model &model, const EngineOptions &options) {
  const std::vector<Plan> &plans = model.artifact().plans;
  if (options.plan) {
    if (*options.plan >= plans.size())
      return invalidInput(model.path(), ": plan ", *options.plan, ", expected one of its ",
                          plans.size(), ", counted from 0");
    return std::vector<uint32_t>{*options.plan};
  }
  std::vector<uint32_t> choice;
  for (uint32_t i = 0; i < plans.size(); ++i)
    if (options.preset ? plans[i].preset == *options.preset || plans[i].name == *options.preset
                       : plans[i].preset == plans[0].preset)
      choice.push_back(i);
  if (choice.empty())
    return refusePreset(model, *options.preset);
  return choice;
}

bool isByLayers(const Plan &plan) {
  return plan.rules.sharing == CacheSharing::kLayerQuotas &&
         !needs(plan.rules.eviction, ScoreData::kExchanges) &&
         std::all_of(plan.prefetches.begin(), plan.prefetches.end(),
                     [](const PrefetchRule &rule) { return rule.predictor == Predictor::kOff; });
}

bool usesPaths(const Plan &plan) {
  return std::any_of(plan.prefetches.begin(), plan.prefetches.end(),
                     [](const PrefetchRule &rule) { return rule.predictor == Predictor::kPaths; });
}

bool losesWithAny(std::span<const Plan> plans) {
  return std::any_of(plans.begin(), plans.end(),
                     [](const Plan &plan) { return plan.miss.isLossy(); });
}

bool weighsWithAny(std::span<const Plan> plans) {
  return std::any_of(plans.begin(), plans.end(), [](const Plan &plan) {
    return needs(plan.rules.eviction, ScoreData::kExchanges);
  });
}

static CacheAllotment allotmentOf(const Plan &plan) {
  return {plan.stagingPages, plan.quotaPages};
}

static ModelFootprint footprintWith(const Artifact &artifact, const Plan &plan,
                                    ModelFootprint footprint) {
  if (usesPaths(plan))
    footprint.metadataBytes += artifact.pathsBytes;
  // Views of each width read in part, as many as there are of whole widths; scratch of decisions.
  // Importances have 8 bytes.
  constexpr uint64_t kBytesPerLayer = 4096, kBytesPerExpert = 18;
  if (losesWithAny(artifact.plans))
    for (const MoeLayer &layer : artifact.moeLayers)
      footprint.metadataBytes += kBytesPerLayer + kBytesPerExpert * layer.experts.size();
  return footprint;
}

/// The account of exactly the planned cache and prefill chunk.
static MemoryAccount accountAsPlanned(const Plan &plan, const ModelFootprint &footprint,
                                      const ProcessFootprint &process, const RunRequest &request) {
  const uint32_t chunk =
      request.prefillChunk.value_or(std::max(request.sessions, request.planPrefillChunk));
  return accountMemory(footprint, process, request, chunk, allotmentOf(plan).totalPages());
}

static std::optional<MemoryAccount> accountWithin(const BudgetSize &budget,
                                                  const MemoryAccount &planned,
                                                  const ModelFootprint &footprint,
                                                  const ProcessFootprint &process,
                                                  const RunRequest &request) {
  const std::optional<MemoryAccount> largest =
      accountForBudget(footprint, process, request, budget);
  MemoryAccount account = planned;
  account.budgetBytes = budget.expertFraction ? account.totalBytes() : budget.bytes;
  const bool fits = budget.expertFraction ? largest && planned.poolPages <= largest->poolPages
                                          : planned.totalBytes() <= budget.bytes;
  return fits ? std::optional(account) : std::nullopt;
}

static RunRequest requestFor(const Plan &plan, const RunRequest &request) {
  RunRequest planned = request;
  planned.planPrefillChunk = std::min(plan.prefillChunk, request.planPrefillChunk);
  return planned;
}

MemoryAccount smallestPlanAccount(const Artifact &artifact, std::span<const uint32_t> choice,
                                  const ModelFootprint &footprint, const ProcessFootprint &process,
                                  const RunRequest &request, bool appliesMissRules) {
  std::optional<MemoryAccount> smallest;
  for (uint32_t index : choice) {
    const Plan &plan = artifact.plans[index];
    const ModelFootprint own = footprintWith(artifact, plan, footprint);
    MemoryAccount account =
        appliesMissRules && plan.miss.isLossy()
            ? accountAsPlanned(plan, own, process, withFewestThreads(requestFor(plan, request)))
            : smallestAccount(own, process, request);
    if (smallest && smallest->totalBytes() <= account.totalBytes())
      continue;
    account.plan = index;
    smallest = std::move(account);
  }
  return *smallest;
}

std::optional<MemoryAccount>
accountOfLargestPlan(const Artifact &artifact, std::span<const uint32_t> choice,
                     const ModelFootprint &footprint, const ProcessFootprint &process,
                     const RunRequest &request, const BudgetSize &budget, bool appliesMissRules) {
  // Plans that fit first; among them the larger one, among the others the smaller one.
  using Rank = std::tuple<bool, int64_t, uint64_t>;
  std::optional<MemoryAccount> best;
  Rank bestRank;
  for (uint32_t index : choice) {
    const Plan &plan = artifact.plans[index];
    const RunRequest planned = requestFor(plan, request);
    const ModelFootprint own = footprintWith(artifact, plan, footprint);
    std::optional<MemoryAccount> account =
        appliesMissRules && plan.miss.isLossy()
            ? withMostThreads(planned,
                              [&](const RunRequest &threaded) {
                                return accountWithin(budget,
                                                     accountAsPlanned(plan, own, process, threaded),
                                                     own, process, threaded);
                              })
            : accountForBudget(own, process, planned, budget);
    if (!account)
      continue;
    uint64_t pages = allotmentOf(plan).totalPages();
    bool isWithin =
        !budget.expertFraction && plan.budgetBytes != 0 && plan.budgetBytes <= budget.bytes;
    bool fits = isWithin || pages <= account->poolPages;
    // A plan without a budget ranks above all plans with as many pages.
    uint64_t budgetRank = fits ? plan.budgetBytes - 1 : UINT64_MAX - plan.budgetBytes;
    Rank rank{fits, fits ? static_cast<int64_t>(pages) : -static_cast<int64_t>(pages), budgetRank};
    if (best && rank <= bestRank)
      continue;
    bestRank = rank;
    best = std::move(account);
    best->plan = index;
  }
  return best;
}

//===-- The planned cache ---------------------------------------------------------------------===//

CacheConfig makeCacheConfig(const Model &model, const std::vector<MoeLayerTables> &layers,
                            const Plan &plan, uint64_t poolPages,
                            std::vector<CacheLayer> &cacheLayers) {
  const Artifact &artifact = model.artifact();
  CacheAllotment allotment = adjustAllotment(allotmentOf(plan), cacheShapeOf(artifact), poolPages);
  cacheLayers.clear();
  for (size_t i = 0; i < layers.size(); ++i)
    cacheLayers.push_back(
        {artifact.moeLayers[i].layer, layers[i].records, allotment.quotaPages[i]});
  CacheConfig config;
  config.fileName = model.path();
  config.pageBytes = artifact.pageBytes;
  config.layers = cacheLayers;
  config.stagingPages = allotment.stagingPages;
  config.rules = plan.rules;
  if (plan.prefetches.empty() && !plan.rules.exchange.exchanges())
    config.prefetchesUnderWay = 0;
  return config;
}

uint64_t startBytesOf(const Artifact &artifact, const Plan &plan, uint64_t poolPages) {
  uint64_t bytes = 0;
  for (size_t l = 0; l < plan.start.size(); ++l)
    for (uint32_t expert : plan.start[l].experts)
      bytes += fullBytesOf(artifact.moeLayers[l].experts[expert]);
  return std::min(bytes, poolPages * artifact.pageBytes);
}

Status pinAsPlanned(const Plan &plan, const PinExpert &pin) {
  size_t longest = 0;
  for (const std::vector<uint32_t> &pinned : plan.pinned)
    longest = std::max(longest, pinned.size());
  // One expert of each layer per round: with one pool, layers lose the same number of pins.
  std::vector<bool> isFull(plan.pinned.size());
  for (size_t place = 0; place < longest; ++place)
    for (uint32_t l = 0; l < plan.pinned.size(); ++l) {
      if (isFull[l] || place >= plan.pinned[l].size())
        continue;
      Status pinned = pin(l, plan.pinned[l][place]);
      isFull[l] = pinned.code() == StatusCode::kInvalidInput;
      if (!isFull[l])
        MOERT_RETURN_IF_ERROR(pinned);
    }
  return {};
}

Status fillAsPlanned(const Plan &plan, ExpertCache &cache,
                     const std::function<void(uint64_t done)> &progress) {
  uint64_t done = 0;
  for (uint32_t l = 0; l < plan.start.size(); ++l) {
    const LayerStart &start = plan.start[l];
    if (start.experts.empty())
      continue;
    MOERT_RETURN_IF_ERROR(cache.fill(l, {start.experts, start.uses, plan.startTokens})
                              .withContext("the experts that the cache starts with"));
    progress(done += cache.passCounts().bytesRead);
  }
  return {};
}

} // namespace moert
