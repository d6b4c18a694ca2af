// moec-opt: runs passes on the IR of a model, as text or bytecode. It is MLIR's mlir-opt with one
// difference: the input is checked before MLIR reads it.
#include "compiler/ir/MoeDialect.h"
#include "compiler/ir/ParseDepth.h"
#include "passes/Pipeline.h"
#include "runtime/base/OutputFile.h"

#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/raw_ostream.h"

static int refuse(const moert::Status &status) {
  llvm::errs() << "moec-opt: " << status.message() << "\n";
  return moert::exitCode(status);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  mlir::moe::registerMoePassesAndPipeline();
  mlir::DialectRegistry registry;
  registry.insert<mlir::moe::MoeDialect>();
  auto [inputName, outputName] =
      mlir::registerAndParseCLIOptions(argc, argv, "Runs passes on the IR of a model\n", registry);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  // Listing options need no input.
  if (config.shouldListPasses() || config.shouldShowDialects())
    return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, inputName, outputName, registry));

  // MLIR opens, and thereby truncates, the output before it reads the input.
  if (outputName != "-")
    if (moert::Status replaces = moert::checkReplacesNone(outputName, std::span(&inputName, 1));
        !replaces.isOk())
      return refuse(replaces);
  std::string error;
  auto input = mlir::openInputFile(inputName, &error);
  if (!input)
    return refuse(moert::invalidInput(error));
  llvm::StringRef text = input->getBuffer();
  moert::Status depth = moec::checkParseDepth({text.data(), text.size()}, inputName);
  if (!depth.isOk())
    return refuse(depth);
  auto output = mlir::openOutputFile(outputName, &error);
  if (!output)
    return refuse(moert::invalidInput(error));
  mlir::LogicalResult result = mlir::MlirOptMain(output->os(), std::move(input), registry, config);
  if (mlir::succeeded(result))
    output->keep();
  return mlir::asMainReturnCode(result);
}
