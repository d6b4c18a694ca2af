#include "compiler/accuracy/ResidentClasses.h"

#include "compiler/ir/MoeDialect.h"
#include "compiler/pipeline/IrContext.h"
#include "compiler/pool/FeedbackGrids.h"
#include "compiler/quantize/PackGrid.h"

#include <algorithm>

using namespace moert;

namespace moec {

Result<std::vector<ResidentClass>> residentClassesOf(const ImportedModel &model,
                                                     const Session &session) {
  IrContext ir(session);
  MOERT_ASSIGN_OR_RETURN(mlir::OwningOpRef<mlir::ModuleOp> module, buildModule(ir, model, {}));
  std::vector<ResidentClass> classes;
  for (mlir::moe::WeightOp weight : module->getOps<mlir::moe::WeightOp>()) {
    if (weight.getRole() != mlir::moe::WeightRole::kMatrix)
      continue;
    const std::string name = weight.getWidthClass().value_or(weight.getSymName()).str();
    auto found = std::find_if(classes.begin(), classes.end(),
                              [&](const ResidentClass &known) { return known.name == name; });
    if (found == classes.end())
      found = classes.insert(classes.end(), {name, {}});
    found->matrices.push_back({weight.getSymName().str(),
                               {weight.rows(), weight.cols()},
                               moert::WeightKind(weight.getSource().getType())});
  }
  return classes;
}

// The transform changes no bytes.
static Result<WeightFormat> quantizedFormat(uint32_t bits, QuantizeMethod method,
                                            const mlir::moe::CompileOptions &passes) {
  if (method != QuantizeMethod::kGptq)
    return WeightFormat{bits == 8 ? WeightKind::kInt8 : WeightKind::kInt4, passes.group,
                        passes.activationGroup, false, false};
  const ExpertWidth width = bits;
  const Grid grid = feedbackGrids({&width, 1}).front().gateUp;
  MOERT_ASSIGN_OR_RETURN(const std::vector<WeightFormat> slices,
                         slicesOf(grid, passes.activationGroup, false));
  return slices.front();
}

Result<uint64_t> storedBytes(const ResidentClass &matrices, uint32_t bits, QuantizeMethod method,
                             const mlir::moe::CompileOptions &passes) {
  uint64_t bytes = 0;
  for (const ResidentMatrix &matrix : matrices.matrices) {
    WeightFormat format;
    if (bits == 16) {
      format.kind = matrix.stored == WeightKind::kF32 ? WeightKind::kBF16 : matrix.stored;
    } else {
      MOERT_ASSIGN_OR_RETURN(format, quantizedFormat(bits, method, passes));
    }
    MOERT_ASSIGN_OR_RETURN(MatrixLayout layout, layoutOf(matrix.shape, format));
    bytes += layout.bytes;
  }
  return bytes;
}

} // namespace moec
