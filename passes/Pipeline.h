// The way from a model's layers to its schedule, in one function.
#pragma once

#include "compiler/plan/BudgetPlan.h"
#include "passes/Passes.h"

#include <string>
#include <vector>

namespace mlir::moe {

/// What a compilation was asked for; Passes.td says what each value means.
struct CompileOptions {
  ExpertBits bits = ExpertBits::k4;
  bool nested = true;
  ResidentBits residentBits = ResidentBits::k8;
  ResidentBits headBits = ResidentBits::kSame;
  std::string widths; // A width file; empty: bits for all.
  uint32_t group = 32, activationGroup = 32;
  std::vector<std::string> budgets;
  std::vector<std::string> presets; // Empty: auto.
  std::string device;               // A device profile; empty: none is known.
  uint32_t pageBytes = 0;
  uint32_t context = 0;
  uint32_t prefillChunk = moec::kDefaultPrefillChunk;
  uint32_t threads = moec::kDefaultThreads;
  /// What later steps put into the artifact, and the runtime holds in memory.
  bool paths = false;         // Activation paths.
  uint64_t measuredBytes = 0; // What was measured of the artifact (moert::measuredBytesOf).
};

void buildCompilePipeline(OpPassManager &passes, const CompileOptions &options);

/// Makes the passes and, as `moe-compile`, the pipeline known by name.
void registerMoePassesAndPipeline();

} // namespace mlir::moe
