// The rules between a plan and the rest of the artifact: room for every record, experts that exist,
// prefetch rules that match the program. All rules, also those of a plan alone (CheckPlan.cpp), are
// arithmetic on the file and use no cache policy, so a file stays valid when a policy changes.
#include "runtime/format/Validate.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/format/ValidateRules.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace moert {

namespace {

/// Pages of a layer's records at full precision; no two records share a page.
struct RecordPages {
  uint64_t all = 0, largest = 0;
};

} // namespace

static RecordPages pagesOf(const MoeLayer &layer, uint32_t pageBytes) {
  RecordPages pages;
  for (const Expert &expert : layer.experts) {
    const uint64_t one = divideUp(fullBytesOf(expert), pageBytes);
    pages.all += one;
    pages.largest = std::max(pages.largest, one);
  }
  return pages;
}

static Status checkQuotas(const Artifact &artifact, const Plan &plan) {
  if (plan.quotaPages.size() != artifact.moeLayers.size())
    return invalidInput("quotas of ", plan.quotaPages.size(), " layers, expected ",
                        artifact.moeLayers.size());
  for (size_t i = 0; i < artifact.moeLayers.size(); ++i) {
    const RecordPages pages = pagesOf(artifact.moeLayers[i], artifact.pageBytes);
    uint64_t room = uint64_t(plan.quotaPages[i]) + plan.stagingPages;
    if (room < pages.largest)
      return invalidInput("MoE layer ", i, " has ", room, " pages with the staging pages, its ",
                          "largest record needs ", pages.largest);
    if (plan.quotaPages[i] > pages.all)
      return invalidInput("MoE layer ", i, " has a quota of ", plan.quotaPages[i],
                          " pages, all its records need ", pages.all);
  }
  return {};
}

// Experts of a layer.
static Status checkExist(const std::vector<uint32_t> &experts, size_t expertCount) {
  for (uint32_t expert : experts)
    if (expert >= expertCount)
      return invalidInput("expert ", expert, ", there are ", expertCount);
  return {};
}

namespace {

/// Layers that share their quotas, for the rules about pins: one layer, or all of them.
struct PinGroup {
  uint64_t quotaPages = 0, largestRecordPages = 0;
  uint64_t pinnedPages = 0;
};

} // namespace

// docs/format.md, "Pins": pinned experts fit into the quotas and leave room for the largest record,
// which may be in the staging pages.
static Status checkPinnedPages(const Artifact &artifact, const Plan &plan) {
  const bool isOnePool = plan.rules.sharing == CacheSharing::kOnePool;
  std::vector<PinGroup> groups(isOnePool ? 1 : artifact.moeLayers.size());
  auto groupOf = [&](size_t layer) -> PinGroup & { return groups[isOnePool ? 0 : layer]; };
  for (size_t i = 0; i < artifact.moeLayers.size(); ++i) {
    PinGroup &group = groupOf(i);
    group.quotaPages += plan.quotaPages[i];
    group.largestRecordPages = std::max(group.largestRecordPages,
                                        pagesOf(artifact.moeLayers[i], artifact.pageBytes).largest);
  }
  for (size_t i = 0; i < plan.pinned.size(); ++i)
    for (uint32_t expert : plan.pinned[i]) {
      PinGroup &group = groupOf(i);
      const uint64_t pages =
          divideUp(fullBytesOf(artifact.moeLayers[i].experts[expert]), artifact.pageBytes);
      // The quotas and the staging pages together hold the largest record (checkQuotas).
      const uint64_t limit = std::min(group.quotaPages, group.quotaPages + plan.stagingPages -
                                                            group.largestRecordPages);
      if (group.pinnedPages + pages > limit)
        return invalidInput("expert ", expert, " of MoE layer ", i, " is pinned: ", pages,
                            " pages, ", group.pinnedPages, " before it, expected at most ", limit,
                            ", which leaves room for the largest record");
      group.pinnedPages += pages;
    }
  return {};
}

static Status checkNamedExperts(const Artifact &artifact, const Plan &plan) {
  for (size_t i = 0; i < plan.pinned.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkExist(plan.pinned[i], artifact.moeLayers[i].experts.size())
                              .withContext(strCat("pins of MoE layer ", i)));
  for (size_t i = 0; i < plan.start.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkExist(plan.start[i].experts, artifact.moeLayers[i].experts.size())
                              .withContext(strCat("start of MoE layer ", i)));
  for (size_t i = 0; i < plan.expertNorms.size(); ++i)
    if (plan.expertNorms[i].size() != artifact.moeLayers[i].experts.size())
      return invalidInput("norms of ", plan.expertNorms[i].size(), " experts of MoE layer ", i,
                          ", expected ", artifact.moeLayers[i].experts.size());
  return plan.pinned.empty() ? Status() : checkPinnedPages(artifact, plan);
}

// Bit a of a MoE layer: the program "decode" has a predict instruction a MoE layers ahead of it.
// Programs are checked after plans.
static std::vector<uint8_t> prefetchesOf(const Artifact &artifact) {
  std::vector<uint8_t> prefetches(artifact.moeLayers.size());
  for (const Program &program : artifact.programs)
    if (program.name == "decode")
      for (const Instruction &instruction : program.instructions)
        if (const auto *predict = std::get_if<PredictInstruction>(&instruction))
          if (predict->moeLayer < prefetches.size() && predict->ahead <= kMostAhead)
            prefetches[predict->moeLayer] |= uint8_t(1 << predict->ahead);
  return prefetches;
}

static Status checkPrefetch(const Artifact &artifact, const PrefetchRule &rule, size_t experts,
                            uint8_t programPrefetches) {
  if (rule.predictor == Predictor::kOff)
    return {};
  MOERT_RETURN_IF_ERROR(checkRange("candidates", rule.candidates, 1, experts));
  if (rule.predictor == Predictor::kPaths && artifact.pathsBytes == 0)
    return invalidInput("an activation-path table is used, but the file has no section of them");
  for (uint32_t distance = 1; distance <= kMostAhead; ++distance)
    if (rule.predictsFrom(distance) && (programPrefetches & 1 << distance) == 0)
      return invalidInput("the program 'decode' has no predict instruction ", distance,
                          " ahead of it");
  return {};
}

static Status checkPlan(const Artifact &artifact, const Plan &plan,
                        const std::vector<uint8_t> &programPrefetches) {
  const uint32_t positions = artifact.model.maxPositions;
  MOERT_RETURN_IF_ERROR(checkPlan(plan));
  MOERT_RETURN_IF_ERROR(checkRange("context_tokens", plan.contextTokens, 1, positions));
  MOERT_RETURN_IF_ERROR(checkQuotas(artifact, plan));
  MOERT_RETURN_IF_ERROR(checkNamedExperts(artifact, plan));
  for (size_t i = 0; i < plan.prefetches.size(); ++i)
    MOERT_RETURN_IF_ERROR(checkPrefetch(artifact, plan.prefetches[i],
                                        artifact.moeLayers[i].experts.size(), programPrefetches[i])
                              .withContext(strCat("prefetches ", i)));
  return plan.loss ? checkRange("window_tokens", plan.loss->windowTokens, 2, positions)
                         .withContext("loss")
                   : Status();
}

Status validatePlans(const Artifact &artifact) {
  if (artifact.plans.empty())
    return invalidInput("no plans, expected at least 1");
  const std::vector<uint8_t> programPrefetches = prefetchesOf(artifact);
  std::unordered_set<std::string_view> names;
  // 0 means no limit, so it is the largest.
  auto limitOf = [](const Plan &plan) { return plan.budgetBytes - 1; };
  for (size_t i = 0; i < artifact.plans.size(); ++i) {
    const Plan &plan = artifact.plans[i];
    MOERT_RETURN_IF_ERROR(
        checkPlan(artifact, plan, programPrefetches).withContext(strCat("plan ", i)));
    if (!names.insert(plan.name).second)
      return invalidInput("plan ", i, ": the name '", plan.name, "' is taken");
    if (i > 0 && limitOf(plan) > limitOf(artifact.plans[i - 1]))
      return invalidInput("plan ", i, ": its budget of ", plan.budgetBytes,
                          " bytes is larger than the one before, expected the largest first");
  }
  return {};
}

} // namespace moert
