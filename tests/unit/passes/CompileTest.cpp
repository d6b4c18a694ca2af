// From a checkpoint to the emitter's input, checked by the rules of the artifact, which are
// independent of the passes.
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/ir/BuildModel.h"
#include "compiler/ir/Choices.h"
#include "compiler/ir/MoeDialect.h"
#include "compiler/ir/PlanAttrs.h"
#include "compiler/translate/BuildEmitPlan.h"
#include "passes/Pipeline.h"

#include "runtime/format/BufferWalk.h"
#include "runtime/format/Validate.h"
#include "runtime/format/Writer.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include <doctest/doctest.h>

#include <optional>

using namespace mlir;
using moe::CompileOptions;
using moe::ExpertBits;
using moe::ResidentBits;
using moec::EmitPlan;

namespace {

/// One compilation; `errors` are its diagnostics.
struct Compilation {
  Compilation() {
    context.disableMultithreading();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        errors += diagnostic.str() + "\n";
      return success();
    });
  }

  void import(const std::string &name) {
    auto imported = moec::importCheckpoint(std::string(MOE_TEST_DATA_DIR) + "/golden/" + name);
    REQUIRE(imported.isOk());
    module = moec::buildModel(
        &context, imported->description, "golden/" + name,
        [&](const moec::WeightSource &source) { return imported->checkpoint.storedType(source); });
    REQUIRE(module);
  }

  bool compile(const CompileOptions &options) {
    PassManager passes(&context);
    moe::buildCompilePipeline(passes, options);
    return succeeded(passes.run(*module));
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string errors;
};

EmitPlan compileCase(const std::string &name, const CompileOptions &options) {
  Compilation compilation;
  compilation.import(name);
  bool isCompiled = compilation.compile(options);
  INFO(compilation.errors);
  REQUIRE(isCompiled);
  EmitPlan plan;
  REQUIRE(succeeded(moec::buildEmitPlan(*compilation.module, plan)));
  return plan;
}

constexpr const char *kCases[] = {
    "granitemoe", "mixtral",   "mixtral_llama3",        "mixtral_swa", "mixtral_tied",
    "olmoe",      "qwen2_moe", "qwen2_moe_sparse_step", "qwen3_moe",   "qwen3_moe_v5"};

} // namespace

TEST_CASE("the emitter's input follows every rule of the artifact, at every width") {
  for (const char *name : kCases)
    for (auto [bits, residentBits] :
         {std::pair(ExpertBits::kSource, ResidentBits::kSource),
          std::pair(ExpertBits::k8, ResidentBits::k16), std::pair(ExpertBits::k4, ResidentBits::k8),
          std::pair(ExpertBits::k2, ResidentBits::k4)}) {
      CAPTURE(name);
      CAPTURE(static_cast<int>(bits));
      CompileOptions options;
      options.bits = bits;
      options.residentBits = residentBits;
      EmitPlan plan = compileCase(name, options);
      moert::Status status = moert::layOutArtifact(plan.artifact, {});
      if (status.isOk())
        status = moert::validateArtifact(plan.artifact);
      INFO(status.message());
      CHECK(status.isOk());
    }
}

TEST_CASE("the head takes its own width, tied to the embedding or not") {
  for (const char *name : {"qwen2_moe", "mixtral_tied"}) {
    CAPTURE(name);
    CompileOptions options;
    options.residentBits = ResidentBits::k4;
    options.headBits = ResidentBits::k8;
    EmitPlan plan = compileCase(name, options);
    const moert::Artifact &artifact = plan.artifact;
    CHECK(std::ranges::count(artifact.provenance,
                             std::pair<std::string, std::string>("head_bits", "8")) == 1);
    const moert::HeadInstruction *head = nullptr;
    for (const moert::Instruction &one : artifact.programs.front().instructions)
      if (auto *found = std::get_if<moert::HeadInstruction>(&one))
        head = found;
    REQUIRE(head);
    for (uint32_t i = 0; i < artifact.residents.size(); ++i) {
      moert::WeightKind kind = artifact.residents[i].format.kind;
      CAPTURE(artifact.residents[i].name);
      if (i == uint32_t(head->weight))
        CHECK(kind == moert::WeightKind::kInt8);
      else
        CHECK(kind != moert::WeightKind::kInt8);
    }
  }
}

TEST_CASE("down takes its own width, and the provenance names it") {
  for (bool isNested : {true, false}) {
    CAPTURE(isNested);
    CompileOptions options;
    options.downBits = 6;
    options.nested = isNested;
    EmitPlan plan = compileCase("qwen2_moe", options);
    moert::Artifact &artifact = plan.artifact;
    CHECK(std::ranges::count(artifact.provenance,
                             std::pair<std::string, std::string>("down_bits", "6")) == 1);
    for (const moert::MoeLayer &layer : artifact.moeLayers)
      for (const moert::Expert &expert : layer.experts) {
        uint32_t bits = 0; // 4 of gate, 4 of up and 6 of down.
        for (const moert::Slice &slice : expert.slices)
          bits += moert::bitsOf(slice.format);
        CHECK(bits == 4 + 4 + 6);
      }
    moert::Status status = moert::layOutArtifact(artifact, {});
    if (status.isOk())
      status = moert::validateArtifact(artifact);
    INFO(status.message());
    CHECK(status.isOk());
  }
}

TEST_CASE("chosen widths of down reach the slices") {
  Compilation compilation;
  compilation.import("qwen2_moe");
  moe::Choices choices;
  for (auto layer : compilation.module->getOps<moe::MoeLayerOp>()) {
    choices.expertBits.emplace_back(layer.getExperts(), 2);
    choices.expertDownBits.emplace_back(layer.getExperts(), 4);
  }
  moe::choose(*compilation.module, choices);
  REQUIRE(compilation.compile({}));
  EmitPlan plan;
  REQUIRE(succeeded(moec::buildEmitPlan(*compilation.module, plan)));
  for (const moert::MoeLayer &layer : plan.artifact.moeLayers)
    for (const moert::Expert &expert : layer.experts) {
      REQUIRE(expert.slices.size() == 2);
      CHECK(expert.slices[1].format.gateUp.kind == moert::WeightKind::kInt0);
      CHECK(expert.slices[1].format.down.kind == moert::WeightKind::kInt2);
    }
}

TEST_CASE("sources are listed with the weights and records that they belong to") {
  EmitPlan plan = compileCase("qwen2_moe_sparse_step", {});
  const moert::Artifact &artifact = plan.artifact;
  REQUIRE(plan.residentSources.size() == artifact.residents.size());
  for (size_t i = 0; i < artifact.residents.size(); ++i) {
    CHECK(plan.residentSources[i].tensor == artifact.residents[i].name);
    CHECK(plan.residentSources[i].rows == artifact.residents[i].shape.rows);
    CHECK(plan.residentSources[i].cols == artifact.residents[i].shape.cols);
  }
  REQUIRE(plan.expertSources.size() == artifact.moeLayers.size());
  for (size_t l = 0; l < artifact.moeLayers.size(); ++l) {
    const moert::MoeLayer &layer = artifact.moeLayers[l];
    REQUIRE(plan.expertSources[l].size() == layer.experts.size());
    for (size_t e = 0; e < layer.experts.size(); ++e)
      for (size_t m = 0; m < layer.matrices.size(); ++m) {
        const moec::WeightSource &source = plan.expertSources[l][e][m];
        CHECK(source.rows == layer.matrices[m].shape.rows);
        CHECK(source.tensor.find("layers." + std::to_string(layer.layer) + ".") !=
              std::string::npos);
        CHECK(source.tensor.find("experts." + std::to_string(e) + ".") != std::string::npos);
      }
  }
}

TEST_CASE("every instruction inside a layer carries its number") {
  EmitPlan plan = compileCase("mixtral", {});
  const moert::Program &program = plan.artifact.programs[0];
  CHECK(program.layers.front() == moert::kNone);
  CHECK(program.layers.back() == moert::kNone);
  for (size_t i = 0; i < program.instructions.size(); ++i)
    if (const auto *experts = std::get_if<moert::ExpertsInstruction>(&program.instructions[i]))
      CHECK(program.layers[i] ==
            static_cast<int32_t>(plan.artifact.moeLayers[experts->moeLayer].layer));
}

TEST_CASE("two equal compilations have the same provenance") {
  EmitPlan a = compileCase("mixtral", {}), b = compileCase("mixtral", {});
  CHECK(a.artifact.provenance == b.artifact.provenance);
  CHECK(a.artifact.provenance[2] == std::pair<std::string, std::string>("bits", "4"));
}

TEST_CASE(
    "every preset's plans follow the rules of the artifact, and prefetch if the preset does") {
  for (const char *device : {"", "/laptop-nvme.yaml", "/raspberry-pi-5-sd.yaml"})
    for (const char *name : {"mixtral", "qwen2_moe", "qwen2_moe_sparse_step"}) {
      CAPTURE(device);
      CAPTURE(name);
      CompileOptions options;
      options.context = 64;
      options.budgets = {"90%", "50%", "1GiB"};
      options.presets = {"auto", "load-on-demand", "lru", "edgemoe", "fate"};
      if (*device)
        options.device = std::string(MOE_PROFILES_DIR) + device;
      EmitPlan plan = compileCase(name, options);
      moert::Status status = moert::layOutArtifact(plan.artifact, {});
      if (status.isOk())
        status = moert::validateArtifact(plan.artifact);
      INFO(status.message());
      CHECK(status.isOk());
      REQUIRE(plan.artifact.plans.size() == 15);
      for (const moert::Plan &each : plan.artifact.plans)
        if (each.preset != "fate" && each.preset != "edgemoe")
          CHECK(each.prefetches.empty());
    }
}

TEST_CASE("a decode step can predict every MoE layer one to three ahead, prefill none") {
  EmitPlan plan = compileCase("mixtral", {});
  for (const moert::Program &program : plan.artifact.programs) {
    size_t prefetches = 0, expected = 0;
    for (const moert::Instruction &instruction : program.instructions)
      prefetches += std::holds_alternative<moert::PredictInstruction>(instruction);
    if (program.name == "decode")
      for (size_t layer = 0; layer < plan.artifact.moeLayers.size(); ++layer)
        expected += std::min<size_t>(layer, moert::kMostAhead);
    CHECK(prefetches == expected);
  }
}

TEST_CASE(
    "the scores of consecutive predictions do not overlap, so that one product computes them") {
  EmitPlan plan = compileCase("mixtral_tied", {});
  size_t pairs = 0;
  for (const moert::Program &program : plan.artifact.programs)
    for (size_t i = 1; i < program.instructions.size(); ++i) {
      auto *one = std::get_if<moert::PredictInstruction>(&program.instructions[i - 1]);
      auto *next = std::get_if<moert::PredictInstruction>(&program.instructions[i]);
      if (!one || !next)
        continue;
      ++pairs;
      CHECK(one->src == next->src);
      CHECK(!moert::sharesBytes(program.buffers[static_cast<size_t>(one->scores)],
                                program.buffers[static_cast<size_t>(next->scores)]));
    }
  CHECK(pairs > 0);
}

TEST_CASE("what is emitted is what the IR says") {
  Compilation compilation;
  compilation.import("qwen2_moe");
  CompileOptions options;
  options.context = 64;
  options.budgets = {"50%"};
  options.presets = {"lru", "fate"};
  REQUIRE(compilation.compile(options));
  // As if another planner had decided.
  std::vector<moert::Plan> plans = moe::plansOf(*compilation.module);
  plans.pop_back();
  plans.front().stagingPages += 3;
  plans.front().pinned.resize(plans.front().quotaPages.size());
  plans.front().pinned.front() = {1};
  plans.front().forecast.emplace().device = "elsewhere";
  moe::setPlans(*compilation.module, plans);
  EmitPlan plan;
  REQUIRE(succeeded(moec::buildEmitPlan(*compilation.module, plan)));
  CHECK(plan.artifact.plans == plans);
}

TEST_CASE("plans come largest budget first, and a smaller one caches less") {
  CompileOptions options;
  options.context = 64;
  options.prefillChunk = 16;
  options.budgets = {"30%", "1GiB", "60%"};
  EmitPlan plan = compileCase("qwen2_moe", options);
  REQUIRE(plan.artifact.plans.size() == 3);
  CHECK(plan.artifact.plans[0].name == "1GiB");
  CHECK(plan.artifact.plans[1].name == "60%");
  CHECK(plan.artifact.plans[2].name == "30%");
  auto pages = [](const moert::Plan &p) {
    uint64_t sum = p.stagingPages;
    for (uint32_t quota : p.quotaPages)
      sum += quota;
    return sum;
  };
  CHECK(pages(plan.artifact.plans[0]) > pages(plan.artifact.plans[1]));
  CHECK(pages(plan.artifact.plans[1]) > pages(plan.artifact.plans[2]));
}

TEST_CASE("a budget that is too small is refused with the smallest, and the smallest works") {
  CompileOptions options;
  options.context = 64;
  options.budgets = {"1MiB"};
  Compilation tooSmall;
  tooSmall.import("qwen2_moe");
  CHECK_FALSE(tooSmall.compile(options));
  const std::string phrase = "the smallest budget that works is ";
  size_t at = tooSmall.errors.find(phrase);
  REQUIRE(at != std::string::npos);
  uint64_t smallest = std::stoull(tooSmall.errors.substr(at + phrase.size()));

  options.budgets = {std::to_string(smallest) + "B"};
  Compilation enough;
  enough.import("qwen2_moe");
  CHECK(enough.compile(options));

  options.budgets = {std::to_string(smallest - 1) + "B"};
  Compilation oneLess;
  oneLess.import("qwen2_moe");
  CHECK_FALSE(oneLess.compile(options));
}

TEST_CASE("a module that was not lowered is not emitted") {
  Compilation compilation;
  compilation.import("mixtral");
  EmitPlan plan;
  CHECK(failed(moec::buildEmitPlan(*compilation.module, plan)));
  CHECK(compilation.errors == "the weight has no format: run moe-assign-bits first\n");
}
