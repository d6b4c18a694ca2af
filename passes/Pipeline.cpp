#include "passes/Pipeline.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace mlir::moe {

void addProgramPasses(OpPassManager &passes, const AssignBitsPassOptions &bits) {
  passes.addPass(createAssignBitsPass(bits));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createPlacePredictorsPass());
  passes.addPass(createJoinProductsPass());
  passes.addPass(createBufferizePass());
}

void buildCompilePipeline(OpPassManager &passes, const CompileOptions &options) {
  addProgramPasses(passes, options);
  addPlanPasses(passes, options);
}

void addPlanPasses(OpPassManager &passes, const CompileOptions &options) {
  // A calibrated artifact holds activation-path tables.
  const bool hasPaths =
      options.paths || !options.sources.paths.empty() || !options.calibration.empty();
  MakePlansPassOptions plans = options;
  plans.budgets.assign(options.budgets.begin(), options.budgets.end());
  plans.presets.assign(options.presets.begin(), options.presets.end());
  plans.paths = hasPaths;
  passes.addPass(createMakePlansPass(std::move(plans), options.sources));

  CheckBudgetsPassOptions budgets;
  budgets.threads = options.threads;
  budgets.paths = hasPaths;
  passes.addPass(createCheckBudgetsPass(budgets));
}

namespace {

/// The same as text. The widths are spelled as in moe-assign-bits.
struct TextOptions : PassPipelineOptions<TextOptions> {
  Option<ExpertBits> bits{
      *this, "bits", llvm::cl::init(ExpertBits::k4),
      llvm::cl::values(
          clEnumValN(ExpertBits::kSource, "source", "the checkpoint's type"),
          clEnumValN(ExpertBits::k8, "8", "8 bits"), clEnumValN(ExpertBits::k6, "6", "6 bits"),
          clEnumValN(ExpertBits::k5, "5", "5 bits"), clEnumValN(ExpertBits::k4, "4", "4 bits"),
          clEnumValN(ExpertBits::k3, "3", "3 bits"), clEnumValN(ExpertBits::k2, "2", "2 bits"))};
  Option<uint32_t> downBits{*this, "down-bits", llvm::cl::init(0)};
  Option<bool> nested{*this, "nested", llvm::cl::init(true)};
  Option<uint32_t> lowCopyBits{*this, "low-copy", llvm::cl::init(0)};
  Option<ResidentBits> residentBits{
      *this, "resident-bits", llvm::cl::init(ResidentBits::k8),
      llvm::cl::values(clEnumValN(ResidentBits::kSource, "source", "the checkpoint's type"),
                       clEnumValN(ResidentBits::k16, "16", "f16 or bf16"),
                       clEnumValN(ResidentBits::k8, "8", "int8"),
                       clEnumValN(ResidentBits::k4, "4", "int4"))};
  Option<ResidentBits> headBits{
      *this, "head-bits", llvm::cl::init(ResidentBits::kSame),
      llvm::cl::values(clEnumValN(ResidentBits::kSame, "same", "the same as resident-bits"),
                       clEnumValN(ResidentBits::kSource, "source", "the checkpoint's type"),
                       clEnumValN(ResidentBits::k16, "16", "f16 or bf16"),
                       clEnumValN(ResidentBits::k8, "8", "int8"),
                       clEnumValN(ResidentBits::k4, "4", "int4"))};
  Option<KvBits> kvBits{
      *this, "kv-bits", llvm::cl::init(KvBits::kAuto),
      llvm::cl::values(clEnumValN(KvBits::kAuto, "auto", "32 of a source model, otherwise 16"),
                       clEnumValN(KvBits::k32, "32", "f32"), clEnumValN(KvBits::k16, "16", "f16"),
                       clEnumValN(KvBits::k8, "8", "int8"))};
  Option<uint32_t> group{*this, "group", llvm::cl::init(32)};
  Option<uint32_t> activationGroup{*this, "activation-group", llvm::cl::init(32)};
  ListOption<std::string> budgets{*this, "budgets"};
  ListOption<std::string> presets{*this, "presets"};
  Option<std::string> calibration{*this, "calibration"};
  Option<std::string> device{*this, "device"};
  Option<uint32_t> pageBytes{*this, "page-bytes", llvm::cl::init(0)};
  Option<uint32_t> context{*this, "context", llvm::cl::init(0)};
  Option<uint32_t> prefillChunk{*this, "prefill-chunk", llvm::cl::init(512)};
  Option<uint32_t> threads{*this, "threads", llvm::cl::init(4)};
  Option<bool> paths{*this, "paths", llvm::cl::init(false)};
};

} // namespace

void registerMoePassesAndPipeline() {
  registerMoePasses();
  registerCanonicalizerPass();
  registerCSEPass();
  PassPipelineRegistration<TextOptions>(
      "moe-compile", "From a model to its schedule: all passes in order",
      [](OpPassManager &passes, const TextOptions &text) {
        CompileOptions options;
        options.bits = text.bits;
        options.downBits = text.downBits;
        options.nested = text.nested;
        options.lowCopyBits = text.lowCopyBits;
        options.residentBits = text.residentBits;
        options.headBits = text.headBits;
        options.kvBits = text.kvBits;
        options.group = text.group;
        options.activationGroup = text.activationGroup;
        options.budgets.assign(text.budgets.begin(), text.budgets.end());
        options.presets.assign(text.presets.begin(), text.presets.end());
        options.calibration = text.calibration;
        options.device = text.device;
        options.pageBytes = text.pageBytes;
        options.context = text.context;
        options.prefillChunk = text.prefillChunk;
        options.threads = text.threads;
        options.paths = text.paths;
        buildCompilePipeline(passes, options);
      });
}

} // namespace mlir::moe
