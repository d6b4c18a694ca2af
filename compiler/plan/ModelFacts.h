// What planning takes from a model: the sizes of its records, the operations of a decode step, the
// predictions that its program makes, and its memory. compiler/emit/ArtifactFacts.h fills this in
// from the description of an artifact, which exists for planned IR too.
#pragma once

#include "compiler/plan/AccuracyModel.h"
#include "compiler/plan/OperationTimes.h"
#include "runtime/memory/MemoryBudget.h"
#include "runtime/policy/Prefetches.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace moec {

/// Products of the same rows of activations, divided among threads together.
struct ProductsStep {
  std::vector<StoredMatrix> matrices;
};

struct AttentionStep {
  AttentionShape shape;
};

/// The product that computes the logits: of one token per chunk.
struct HeadStep {
  StoredMatrix matrix;
};

/// The choice of experts, after the product that computes the scores.
struct RouteStep {
  std::optional<StoredMatrix> router; // Its matrix; absent: it is no product of its own.
};

/// How the matrices of an expert are multiplied: each is one of kProductWeights.
struct ExpertProducts {
  std::string_view gateUp, down;

  friend bool operator==(const ExpertProducts &, const ExpertProducts &) = default;
};

/// One expert as it is multiplied and checked at full precision, and its low copy.
struct StoredExpert {
  ExpertProducts weights;
  uint64_t payloadBytes = 0;
  uint32_t slices = 1;
  ExpertProducts lowCopyWeights = {};
  uint32_t lowCopySlices = 0; // 0: it has none.
};

/// The routed experts of a MoE layer.
struct ExpertsStep {
  uint32_t moeLayer = 0;
  uint32_t hidden = 0, inner = 0; // Gate and up are inner x hidden, down is hidden x inner.
  std::vector<StoredExpert> experts;
};

using StepOperation = std::variant<ProductsStep, AttentionStep, HeadStep, RouteStep, ExpertsStep>;

/// Lists per MoE layer have one entry for each of footprint.cache.layers.
struct ModelFacts {
  std::vector<std::vector<uint64_t>> recordBytes; // [MoE layer][expert], at full precision
  /// [MoE layer][expert]: where the slices of its record end, and how many are its low copy.
  std::vector<std::vector<std::vector<uint64_t>>> sliceEnds;
  std::vector<std::vector<uint16_t>> lowCopySlices;
  std::vector<uint32_t> topK;                     // Per MoE layer.
  std::vector<std::vector<uint32_t>> expertNorms; // As Plan::expertNorms; empty: not known.
  std::optional<AccuracyModel> accuracy;          // For virtual experts, where it was measured.
  /// Per MoE layer: whether the decode program predicts it from so many MoE layers before, minus 1.
  std::vector<std::array<bool, moert::kMostAhead>> isPredicted;
  std::vector<StepOperation> decode; // What takes time, in order.
  moert::ModelFootprint footprint;   // Includes the page size.
};

} // namespace moec
