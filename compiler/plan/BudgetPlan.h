// A plan for one budget: how many pages the budget leaves for experts, and how layers share them.
// The arithmetic is runtime/policy's, with the process estimated for a machine that is not known;
// the runtime repeats it with exact numbers when it loads the artifact.
#pragma once

#include "compiler/plan/PresetRules.h"
#include "runtime/base/Status.h"
#include "runtime/memory/MemoryBudget.h"
#include "runtime/policy/CacheAllotment.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// What is planned for where nobody says otherwise: tokens of context and of a prefill chunk, and
/// threads whose stacks and scratch are counted.
constexpr uint32_t kDefaultContext = 2048, kDefaultPrefillChunk = 512,
                   kDefaultThreads = moert::kPlannedThreads;

/// What plans are made for beside their budgets.
struct PlannedUse {
  uint32_t contextTokens = kDefaultContext;
  uint32_t contextBlock = 1; // Sessions reserve the context in blocks of so many tokens.
  uint32_t prefillChunk = kDefaultPrefillChunk; // Tokens, at most.
  uint32_t threads = kDefaultThreads;
  std::vector<Preset> presets = {Preset::kAuto}; // Each has a plan for each budget.
  bool hasPaths = false;                         // There are activation paths to prefetch by.
  uint32_t hobbitDepth = 0; // MoE layers that preset hobbit predicts ahead; 0: fitted to a trace.
};

struct BudgetPlan {
  std::string name;         // "default", or the budget and, if there are several, the preset.
  std::string budget;       // As given; empty: none.
  uint64_t budgetBytes = 0; // 0: no budget was given; everything is cached.
  uint32_t contextTokens = 0;
  uint32_t prefillChunk = 0;
  moert::CacheAllotment allotment;
  Preset preset = Preset::kAuto;
};

/// The model with what so many plans take in memory, at most: all of an artifact's plans stay
/// there, with their lists and reasons.
moert::ModelFootprint withPlans(moert::ModelFootprint model, size_t plans,
                                std::span<const Preset> presets = {});

/// The best use of a budget, for a process as estimated. One that is too small gets the smallest
/// pool, which accountOf() then refuses with numbers; a fraction that is less than a record is
/// refused here.
moert::Result<BudgetPlan> planBudget(const moert::ModelFootprint &model, const std::string &budget,
                                     Preset preset, const PlannedUse &use);

/// The smallest budget that works for such a use, in bytes.
uint64_t smallestBudget(const moert::ModelFootprint &model, const PlannedUse &use);

/// One plan for each budget and preset, of a model without plans: the largest budget first, the
/// presets of one in the order in which they were given. Without budgets "default", which has pages
/// for every expert. Refuses a budget or a preset that is given twice.
moert::Result<std::vector<BudgetPlan>> planBudgets(const moert::ModelFootprint &model,
                                                   std::span<const std::string> budgets,
                                                   const PlannedUse &use);

/// What a run of one of the model's plans needs (withPlans()), item by item; of the use only what
/// the plan does not say counts. Refuses one that its budget does not hold, with the smallest that
/// works.
moert::Result<moert::MemoryAccount> accountOf(const moert::ModelFootprint &model,
                                              const BudgetPlan &plan, const PlannedUse &use);

} // namespace moec
