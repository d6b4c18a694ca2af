// moec-opt: runs passes on the IR of a model. Reads text or bytecode.
#include "compiler/ir/MoeDialect.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::moe::registerMoePassesAndPipeline();
  mlir::DialectRegistry registry;
  registry.insert<mlir::moe::MoeDialect, mlir::func::FuncDialect>();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Runs passes on the IR of a model\n", registry));
}
