// A run profile as data: reads and checks the JSON that `moert run --profile` writes
// (docs/run-profile.md).
#pragma once

#include "runtime/base/Status.h"
#include "runtime/engine/StepParts.h"
#include "runtime/policy/Prefetches.h"
#include "runtime/serving/RunProfile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

/// One step with its layers: one entry per layer of the model, and one for the rest.
struct RecordedStep {
  moert::RunStep step;
  std::vector<moert::LayerProfile> layers;

  uint64_t computeNs() const;
  uint64_t waitNs() const;
  uint64_t bytesRead() const;
};

/// All steps of a phase, also those that the profile does not have.
struct PhaseTotals {
  uint64_t steps = 0, tokens = 0, wallNs = 0;
  moert::StepReads reads; // Zero in profiles of older programs.
  moert::PartNumbers partNs{};
  std::vector<moert::LayerTotals> layers;

  moert::LayerTotals sum() const;
};

/// What was predicted for a MoE layer while decoding: [decoded tokens][depths][perToken].
struct RecordedCandidates {
  uint32_t perToken = 0;
  uint32_t depths = 1; // Predictions from 1 to so many MoE layers before; 1: from one of them.
  std::vector<moert::PrefetchCandidate> candidates;
};

struct RunRecord {
  std::string path; // The file.
  moert::RunFacts facts;
  uint32_t layers = 0;
  PhaseTotals prefill, decode;
  uint64_t routedTokens = 0;                  // Tokens with recorded routes.
  std::vector<std::vector<uint16_t>> chosen;  // [MoE layer][routedTokens * topK]
  std::vector<RecordedCandidates> candidates; // [MoE layer]
  uint64_t keptEvery = 1;                     // Every n-th step is in `steps`.
  std::vector<RecordedStep> steps;
};

/// Refuses files that are not complete profiles of a version that this reads, with file, key, found
/// and expected value.
moert::Result<RunRecord> readRunRecord(const std::string &path);

} // namespace moec
