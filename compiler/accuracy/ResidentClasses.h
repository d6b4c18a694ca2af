// Classes of resident matrices that share a width. Each matrix is too small to be worth a choice
// of its own, and measuring them one by one would take one pass over the text per matrix.
#pragma once

#include "compiler/commands/Compile.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/quantize/QuantizeExpert.h"
#include "runtime/format/WeightLayout.h"

#include <string>
#include <vector>

namespace moec {

struct ResidentMatrix {
  std::string symbol; // In the IR.
  moert::MatrixShape shape;
  moert::WeightKind stored = moert::WeightKind::kF32;
};

struct ResidentClass {
  std::string name; // "embedding", "attention", "shared experts", "dense networks", "head"
  std::vector<ResidentMatrix> matrices;
};

/// The matrices that may be quantized, in the order of the model; classes without any are left out.
moert::Result<std::vector<ResidentClass>> residentClassesOf(const ImportedModel &model,
                                                            const Session &session);

/// The bytes of a class at 16, 8 or 4 bits, as moe-assign-bits stores it after `method`.
moert::Result<uint64_t> storedBytes(const ResidentClass &matrices, uint32_t bits,
                                    QuantizeMethod method, const mlir::moe::CompileOptions &passes);

} // namespace moec
