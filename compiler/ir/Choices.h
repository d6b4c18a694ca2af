// What is decided before the passes run, as attributes and as plain data: how experts are
// quantized, and what an accuracy search chose and measured.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mlir::moe {

/// `#moe.quantizer`.
struct Quantizer {
  QuantizeMethod method = QuantizeMethod::kNearest;
  uint32_t group = 32; // Inputs of an expert's row that share a scale.
  bool hasOffsets = false;
  bool hasLevels = false; // Non-linear codes up to kMaxLevelBits.
  bool hasByteScales = false;
  bool hasHadamard = false;
  bool isNested = false;
  std::string calibration = {}; // Path of a calibration profile; empty: none.
  uint64_t traceExpertBytes = 0;
  std::vector<uint64_t> searchRuns = {}; // Runs that a search for widths has read, ascending.
};

/// Absent and empty fields leave the decision to the options of the passes.
struct Choices {
  std::optional<Quantizer> quantizer;
  std::vector<std::vector<int32_t>> expertBits;     // [MoE layer][expert]
  std::vector<std::vector<int32_t>> expertDownBits; // Those of down; empty: as gate and up.
  std::map<std::string, uint32_t> residentBits;     // By symbol.
  std::optional<moert::Measured> measured;
  std::string widthsBy; // What chose the widths, for the artifact's provenance.
};

/// Adds the choices to an imported module, which has none and has the layers and weights that they
/// name.
void choose(ModuleOp module, const Choices &choices);

/// Nearest without an attribute.
Quantizer quantizerOf(ModuleOp module);

} // namespace mlir::moe
