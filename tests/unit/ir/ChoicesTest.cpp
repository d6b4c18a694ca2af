// What was chosen before the passes, as attributes of a module.
#include "compiler/ir/Choices.h"
#include "compiler/ir/PlanAttrs.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <doctest/doctest.h>

using namespace mlir::moe;

TEST_CASE("a quantizer is read back as it was chosen, field by field") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  const auto readBack = [&](const Quantizer &quantizer) {
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    Choices choices;
    choices.quantizer = quantizer;
    choose(*module, choices);
    return quantizerOf(*module);
  };
  // One flag at a time, so that swapped flags are found.
  for (bool Quantizer::*flag :
       {&Quantizer::hasOffsets, &Quantizer::hasLevels, &Quantizer::hasByteScales,
        &Quantizer::hasHadamard, &Quantizer::isNested}) {
    Quantizer chosen = {.method = QuantizeMethod::kGptq,
                        .group = 96,
                        .calibration = "tiny.profile",
                        .traceExpertBytes = 3538944,
                        .searchRuns = {5, UINT64_MAX}};
    chosen.*flag = true;
    const Quantizer read = readBack(chosen);
    CHECK(read.method == QuantizeMethod::kGptq);
    CHECK(read.group == 96);
    CHECK(read.hasOffsets == chosen.hasOffsets);
    CHECK(read.hasLevels == chosen.hasLevels);
    CHECK(read.hasByteScales == chosen.hasByteScales);
    CHECK(read.hasHadamard == chosen.hasHadamard);
    CHECK(read.isNested == chosen.isNested);
    CHECK(read.calibration == "tiny.profile");
    CHECK(read.traceExpertBytes == 3538944);
    CHECK(read.searchRuns == chosen.searchRuns);
  }
}

TEST_CASE("a measured quantile is read back to the last bit, with its target and without") {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<MoeDialect>();
  for (const std::optional<double> target : {std::optional<double>(), std::optional(1.0 / 7)}) {
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    Choices choices;
    choices.measured.emplace().quantile = {0.9, 1.0 / 3, target};
    choose(*module, choices);
    CHECK(dataOf<MeasuredAttr>(*module, kMeasuredAttr) == choices.measured);
  }
}
