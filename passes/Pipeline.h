// The pass pipeline from a model to its schedule, in one function.
#pragma once

#include "passes/MakePlans.h"

#include <string>
#include <vector>

namespace mlir::moe {

/// The options of a compilation; Passes.td documents each value.
struct CompileOptions {
  ExpertBits bits = ExpertBits::k4;
  uint32_t downBits = 0; // 0: as bits.
  bool nested = true;
  uint32_t lowCopyBits = 0; // 0: no low copies.
  ResidentBits residentBits = ResidentBits::k8;
  ResidentBits headBits = ResidentBits::kSame;
  KvBits kvBits = KvBits::kAuto;
  uint32_t group = 32, activationGroup = 32;
  std::vector<std::string> budgets;
  std::vector<std::string> presets; // Empty: auto.
  std::string calibration;          // Path of a calibration profile; empty: none.
  std::string device;               // Path of a device profile; empty: none.
  PlanSources sources;              // The same in memory, and more.
  uint32_t pageBytes = 0;
  uint32_t context = 0;
  uint32_t prefillChunk = moec::kDefaultPrefillChunk;
  uint32_t threads = moec::kDefaultThreads;
  bool paths = false; // The artifact will hold activation-path tables, which take memory.
};

/// The passes before make-plans: from an imported model to programs with offsets.
void addProgramPasses(OpPassManager &passes, const AssignBitsPassOptions &bits);

void buildCompilePipeline(OpPassManager &passes, const CompileOptions &options);

/// Registers the passes and, as `moe-compile`, the pipeline.
void registerMoePassesAndPipeline();

} // namespace mlir::moe
