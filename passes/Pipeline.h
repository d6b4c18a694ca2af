// The pass pipeline from a model to its schedule, in one function.
#pragma once

#include "passes/MakePlans.h"

#include <string>
#include <vector>

namespace mlir::moe {

/// The options of a compilation, which are those of its passes (Passes.td).
struct CompileOptions : AssignBitsPassOptions, MakePlansPassOptions {
  std::vector<std::string> budgets;
  std::vector<std::string> presets; // Empty: auto.
  PlanSources sources;              // Inputs of make-plans in memory, and more.
};

/// The passes before make-plans: from an imported model to programs with offsets.
void addProgramPasses(OpPassManager &passes, const AssignBitsPassOptions &bits);

/// The passes from make-plans on, alone for a module of an artifact.
void addPlanPasses(OpPassManager &passes, const CompileOptions &options);

void buildCompilePipeline(OpPassManager &passes, const CompileOptions &options);

/// Registers the passes and, as `moe-compile`, the pipeline.
void registerMoePassesAndPipeline();

} // namespace mlir::moe
