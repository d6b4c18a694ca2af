#include "compiler/plan/BudgetPlan.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Size.h"

#include <algorithm>

using namespace moert;

namespace moec {

static constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

// Too much rather than too little: a plan that the compiler proved has to be accepted by the
// runtime. Beside each value what the runtime counted for itself on Debian 12 with 2 cores.
static ProcessFootprint typicalProcess() {
  ProcessFootprint process;
  process.imageBytes = 7 * kMiB;              // 6.1 MiB: moert, libstdc++, libc, libm.
  process.heapBytes = 3 * kMiB / 2;           // 1.5 MiB: small allocations and the main stack.
  process.bytesPerThread = 224 * kKiB;        // 192 KiB: a small stack and the kernel's structures.
  process.ioBytes = 2 * kMiB;                 // 1.5 MiB: rings, request tables, a bounce buffer.
  process.ioBytesPerPoolMiB = 8 * kKiB;       // 8 KiB: 32 bytes per registered 4 KiB page.
  process.reserveBytes = 3 * kMiB / 2;        // 1.5 MiB.
  process.reserveBytesPerThread = 256 * kKiB; // 256 KiB.
  return process;
}

// For one plan: an expert's entries in the lists of pins and of the start, and its uses; a layer's
// lists and its rule of prefetching.
static constexpr uint64_t kPlanBytesPerExpert = 12, kPlanBytesPerLayer = 128;
// With preset swapmoe: a list of norms and the norm of an expert.
static constexpr uint64_t kNormBytesPerExpert = 4, kNormBytesPerLayer = 32;
// The reasons of a plan: about ten of at most 600 bytes, and the rest of the plan.
static constexpr uint64_t kBytesPerPlan = 16 * kKiB;

ModelFootprint withPlans(ModelFootprint model, size_t plans, std::span<const Preset> presets) {
  const bool hasNorms = std::any_of(presets.begin(), presets.end(), usesVirtualExperts);
  uint64_t bytes = kBytesPerPlan;
  for (const CacheShape::Layer &layer : model.cache.layers) {
    bytes += kPlanBytesPerLayer + layer.experts * kPlanBytesPerExpert;
    bytes += hasNorms ? kNormBytesPerLayer + layer.experts * kNormBytesPerExpert : 0;
  }
  model.metadataBytes += plans * bytes;
  return model;
}

/// With the table of activation paths, of which the search may make use. All presets of a budget
/// count it, so that they are plans of the same size and stay in their order.
static ModelFootprint withPaths(ModelFootprint model, const PlannedUse &use) {
  model.metadataBytes += use.hasPaths ? model.pathsBytes : 0;
  return model;
}

// Beside the model's own memory a run holds its prompt and what it generates: text and ids of each
// token of the context, and a sampler's copies of the logits.
static constexpr uint64_t kTextBytesPerToken = 32, kSamplerCopies = 4;

static RunRequest plannedRun(const ModelFootprint &model, const PlannedUse &use) {
  RunRequest request;
  request.contextTokens = uint32_t(roundUp(use.contextTokens, use.contextBlock));
  request.planPrefillChunk = std::min(use.prefillChunk, use.contextTokens);
  request.threads = use.threads;
  request.extraBytes = use.contextTokens * kTextBytesPerToken + model.logitsBytes * kSamplerCopies;
  return request;
}

/// Prefetches by paths need some; pages that were kept free for them would be wasted.
static CacheAllotment allotmentOf(const ModelFootprint &model, Preset preset, uint64_t poolPages,
                                  const PlannedUse &use) {
  const bool isPrefetching = use.hasPaths || predictorOf(preset).predictor != Predictor::kPaths;
  return allotFor(preset, model.cache, poolPages, isPrefetching);
}

static Result<Size> parseBudget(const std::string &budget) {
  auto parsed = parseSize(budget);
  if (!parsed.isOk())
    return parsed.status().withContext("budget");
  return parsed;
}

Result<BudgetPlan> planBudget(const ModelFootprint &withoutPaths, const std::string &budget,
                              Preset preset, const PlannedUse &use) {
  const ModelFootprint model = withPaths(withoutPaths, use);
  const RunRequest request = plannedRun(model, use);
  MOERT_ASSIGN_OR_RETURN(const Size size, parseBudget(budget));
  std::optional<MemoryAccount> account =
      accountForBudget(model, typicalProcess(), request, {size.bytes, size.fraction});
  if (!account && size.fraction)
    return invalidInput("budget ", budget, ": a cache of that fraction of ",
                        formatBytes(model.expertPayloadBytes),
                        " of experts is smaller than the largest record, ",
                        formatBytes(smallestPoolPages(model.cache) * model.pageBytes));
  BudgetPlan plan{budget, budget, size.bytes, use.contextTokens, 1, {}, preset};
  uint64_t poolPages = smallestPoolPages(model.cache);
  if (account) {
    plan.budgetBytes = account->budgetBytes;
    plan.prefillChunk = account->prefillChunk;
    poolPages = account->poolPages;
  }
  plan.allotment = allotmentOf(model, preset, poolPages, use);
  return plan;
}

// By value: 25% and 25.0%, 512MiB and 0.5GiB would each give the same plan twice.
static Status checkOnce(std::span<const std::string> budgets, std::span<const Preset> presets) {
  std::vector<Size> sizes;
  for (const std::string &budget : budgets) {
    MOERT_ASSIGN_OR_RETURN(Size size, parseBudget(budget));
    auto isSame = [&](const Size &other) {
      return other.bytes == size.bytes && other.fraction == size.fraction;
    };
    const auto same = std::ranges::find_if(sizes, isSame);
    if (same != sizes.end()) {
      const std::string &earlier = budgets[static_cast<size_t>(same - sizes.begin())];
      return invalidInput("budget ", budget, " is given twice",
                          earlier == budget ? "" : strCat(", before as ", earlier),
                          "; plan names must be unique");
    }
    sizes.push_back(size);
  }
  for (Preset preset : presets)
    if (std::count(presets.begin(), presets.end(), preset) > 1)
      return invalidInput("preset ", presetName(preset),
                          " is given twice; plan names must be unique");
  return {};
}

static BudgetPlan planWithoutBudget(const ModelFootprint &model, Preset preset,
                                    const PlannedUse &use) {
  return {"default",
          "",
          0,
          use.contextTokens,
          std::min(use.prefillChunk, use.contextTokens),
          allotmentOf(model, preset, largestPoolPages(model.cache), use),
          preset};
}

uint64_t smallestBudget(const ModelFootprint &withoutPaths, const PlannedUse &use) {
  const ModelFootprint model = withPaths(withoutPaths, use);
  return smallestAccount(model, typicalProcess(), plannedRun(model, use)).totalBytes();
}

Result<std::vector<BudgetPlan>> planBudgets(const ModelFootprint &bare,
                                            std::span<const std::string> budgets,
                                            const PlannedUse &use) {
  MOERT_RETURN_IF_ERROR(checkOnce(budgets, use.presets));
  const ModelFootprint model =
      withPlans(bare, std::max<size_t>(1, budgets.size()) * use.presets.size(), use.presets);
  std::vector<BudgetPlan> plans;
  for (const std::string &budget : budgets)
    for (Preset preset : use.presets) {
      MOERT_ASSIGN_OR_RETURN(BudgetPlan plan, planBudget(model, budget, preset, use));
      plans.push_back(std::move(plan));
    }
  if (budgets.empty())
    for (Preset preset : use.presets)
      plans.push_back(planWithoutBudget(model, preset, use));
  if (use.presets.size() > 1)
    for (BudgetPlan &plan : plans)
      plan.name += strCat(" ", presetName(plan.preset));
  std::stable_sort(plans.begin(), plans.end(), [](const BudgetPlan &a, const BudgetPlan &b) {
    return a.budgetBytes > b.budgetBytes;
  });
  return plans;
}

Result<MemoryAccount> accountOf(const ModelFootprint &withoutPaths, const BudgetPlan &plan,
                                const PlannedUse &use) {
  const ModelFootprint model = withPaths(withoutPaths, use);
  PlannedUse planned = use;
  planned.contextTokens = plan.contextTokens;
  planned.prefillChunk = plan.prefillChunk;
  const RunRequest request = plannedRun(model, planned);
  MemoryAccount account = accountMemory(model, typicalProcess(), request, plan.prefillChunk,
                                        plan.allotment.totalPages());
  if (plan.budgetBytes == 0 || account.totalBytes() <= plan.budgetBytes)
    return account;
  std::string items;
  for (const MemoryItem &item : account.items)
    items += strCat("\n  ", item.name, ": ", item.bytes, " bytes");
  const uint64_t smallest = smallestAccount(model, typicalProcess(), request).totalBytes();
  return invalidInput("plan '", plan.name, "' needs ", formatExactBytes(account.totalBytes()),
                      " of a budget of ", formatExactBytes(plan.budgetBytes),
                      "; the smallest budget that works is ", formatExactBytes(smallest), " with ",
                      plan.contextTokens, " tokens of context", items);
}

} // namespace moec
