// From a checkpoint to IR: the module has everything of the description, and printing and parsing
// it gives the same module.
#include "compiler/ir/BuildModel.h"
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/ir/MoeDialect.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <doctest/doctest.h>

using namespace mlir;
using namespace mlir::moe;
using moec::ImportedModel;

namespace {

/// A context and the last error that was emitted in it.
struct Compiler {
  Compiler() {
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      message = diagnostic.str();
      return success();
    });
  }

  OwningOpRef<ModuleOp> build(const moec::ModelDescription &model) {
    return moec::buildModel(&context, model, "somewhere",
                            [](const moec::WeightSource &) { return moec::StoredType::kBf16; });
  }

  MLIRContext context;
  std::string message;
};

ImportedModel importCase(const std::string &name) {
  auto result = moec::importCheckpoint(std::string(MOE_TEST_DATA_DIR) + "/golden/" + name);
  INFO(result.status().message());
  REQUIRE(result.isOk());
  return std::move(result).value();
}

OwningOpRef<ModuleOp> buildCase(MLIRContext &context, const std::string &name) {
  ImportedModel model = importCase(name);
  auto module =
      moec::buildModel(&context, model.description, "checkpoints/" + name,
                       [&](const moec::WeightSource &s) { return model.checkpoint.storedType(s); });
  REQUIRE(module);
  return module;
}

ProgramOp programOf(ModuleOp module) {
  return module.lookupSymbol<ProgramOp>("decode");
}

template <typename OpT> OpT firstOf(ModuleOp module) {
  return *programOf(module).block().getOps<OpT>().begin();
}

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

} // namespace

TEST_CASE("a printed module reads back as the same module, text and bytecode") {
  for (const char *name :
       {"gpt_oss", "granitemoe", "mixtral", "mixtral_llama3", "mixtral_swa", "mixtral_tied",
        "olmoe", "qwen2_moe", "qwen2_moe_sparse_step", "qwen3_moe", "qwen3_moe_v5"}) {
    CAPTURE(name);
    MLIRContext context;
    OwningOpRef<ModuleOp> module = buildCase(context, name);
    std::string text = print(*module);
    OwningOpRef<ModuleOp> fromText = parseSourceString<ModuleOp>(text, &context);
    REQUIRE(fromText);
    CHECK(print(*fromText) == text);

    std::string bytes;
    llvm::raw_string_ostream stream(bytes);
    REQUIRE(succeeded(writeBytecodeToFile(*module, stream, BytecodeWriterConfig("moec"))));
    OwningOpRef<ModuleOp> fromBytes = parseSourceString<ModuleOp>(bytes, &context);
    REQUIRE(fromBytes);
    CHECK(print(*fromBytes) == text);
  }
}

TEST_CASE("the frequencies of a rotation keep every bit through text") {
  MLIRContext context;
  ImportedModel model = importCase("mixtral_llama3");
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(print(*buildCase(context, "mixtral_llama3")), &context);
  RopeTableOp rope = *module->getOps<RopeTableOp>().begin();
  std::vector<float> read;
  for (FloatAttr frequency : rope.getInverseFrequencies().getAsRange<FloatAttr>())
    read.push_back(frequency.getValue().convertToFloat());
  CHECK(read == model.description.ropes.at(0).inverseFrequencies);
}

TEST_CASE("every expert's source follows from the compact form") {
  for (const char *name : {"mixtral", "qwen2_moe"}) {
    CAPTURE(name);
    MLIRContext context;
    ImportedModel model = importCase(name);
    OwningOpRef<ModuleOp> module = buildCase(context, name);
    for (MoeLayerOp layer : module->getOps<MoeLayerOp>()) {
      CHECK(layer.matrix(ExpertPart::kUp).getSources().size() == 1);
      const auto &experts = model.description.layers[layer.getLayer()].moe->experts;
      REQUIRE(layer.getExperts() == experts.size());
      for (uint32_t i = 0; i < experts.size(); ++i) {
        CHECK(layer.sourceOf(ExpertPart::kGate, i).getTensor().str() ==
              experts[i].gate.weight.tensor);
        CHECK(layer.sourceOf(ExpertPart::kDown, i).getTensor().str() ==
              experts[i].down.weight.tensor);
      }
    }
  }
}

TEST_CASE("experts stacked in one tensor are named by one source with their number as index") {
  Compiler compiler;
  moec::ModelDescription model = importCase("mixtral").description;
  auto &experts = model.layers[0].moe->experts;
  for (uint32_t i = 0; i < experts.size(); ++i) {
    experts[i].gate.weight.tensor = "stacked";
    experts[i].gate.weight.index = i;
  }
  OwningOpRef<ModuleOp> module = compiler.build(model);
  REQUIRE(module);
  MoeLayerOp layer = *module->getOps<MoeLayerOp>().begin();
  CHECK(layer.matrix(ExpertPart::kGate).getSources().size() == 1);
  CHECK(layer.sourceOf(ExpertPart::kGate, 5).getIndex() == 5);
  CHECK(layer.sourceOf(ExpertPart::kGate, 5).getTensor() == "stacked");
}

TEST_CASE("experts in irregular order keep one source each") {
  Compiler compiler;
  moec::ModelDescription model = importCase("mixtral").description;
  auto &experts = model.layers[0].moe->experts;
  std::swap(experts[2].gate, experts[6].gate);
  OwningOpRef<ModuleOp> module = compiler.build(model);
  REQUIRE(module);
  MoeLayerOp layer = *module->getOps<MoeLayerOp>().begin();
  CHECK(layer.matrix(ExpertPart::kGate).getSources().size() == experts.size());
  CHECK(layer.sourceOf(ExpertPart::kGate, 2).getTensor().str() == experts[2].gate.weight.tensor);
}

TEST_CASE("a tied head uses the embedding, an untied one its own weight") {
  MLIRContext context;
  for (bool isTied : {true, false}) {
    OwningOpRef<ModuleOp> module = buildCase(context, isTied ? "mixtral_tied" : "mixtral");
    CHECK((firstOf<HeadOp>(*module).getWeight() == firstOf<EmbedOp>(*module).getWeight()) ==
          isTied);
  }
}

TEST_CASE("dense and routed layers are in the order of the model") {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = buildCase(context, "qwen2_moe_sparse_step");
  ImportedModel model = importCase("qwen2_moe_sparse_step");
  std::vector<bool> expected(model.description.layers.size());
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] = model.description.layers[i].moe.has_value();
  std::vector<bool> found(expected.size());
  for (ExpertsOp op : programOf(*module).block().getOps<ExpertsOp>())
    found[static_cast<size_t>(op->getAttrOfType<IntegerAttr>(kLayerAttr).getInt())] = true;
  CHECK(found == expected);
}

TEST_CASE("the shared expert is between the router and the experts instruction") {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = buildCase(context, "qwen2_moe_sparse_step");
  for (ExpertsOp op : programOf(*module).block().getOps<ExpertsOp>()) {
    CHECK(isa<GateRowsOp>(op->getPrevNode()));
    CHECK(op.getExperts().getDefiningOp()->isBeforeInBlock(op->getPrevNode()));
  }
}

/// The instructions of one layer, in order.
static std::string instructionsOf(ModuleOp module, int64_t layer) {
  std::string names;
  for (Operation &op : programOf(module).block())
    if (auto number = op.getAttrOfType<IntegerAttr>(kLayerAttr); number && number.getInt() == layer)
      names += (names.empty() ? "" : " ") + op.getName().stripDialect().str();
  return names;
}

TEST_CASE("each kind of mixer and network is composed of its instructions") {
  MLIRContext context;
  const std::string moe = " add norm scale linear route";
  CHECK(instructionsOf(*buildCase(context, "qwen3_moe"), 0) ==
        "norm linear linear linear norm norm rope rope store_kv attend linear" + moe +
            " experts add");
  CHECK(instructionsOf(*buildCase(context, "qwen2_moe"), 0) ==
        "norm linear linear linear rope rope store_kv attend linear" + moe +
            " linear linear activate linear linear gate_rows experts add add");
}

TEST_CASE("experts with biases are refused") {
  Compiler compiler;
  moec::ModelDescription model = importCase("mixtral").description;
  model.layers[1].moe->experts[3].up.bias = moec::WeightSource{"bias", 1, 96, {}, 0, 1, false};
  CHECK_FALSE(compiler.build(model));
  CHECK(compiler.message == "the experts' up has a bias, expected experts without biases");
}

TEST_CASE("sinks, biases of all experts and the numbers of an activation are the ops'") {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = buildCase(context, "gpt_oss");
  CHECK(module->lookupSymbol<WeightOp>(firstOf<AttendOp>(*module).getSinksAttr()).cols() == 8);
  auto experts = firstOf<ExpertsOp>(*module);
  for (FlatSymbolRefAttr bias :
       {experts.getGateBiasAttr(), experts.getUpBiasAttr(), experts.getDownBiasAttr()}) {
    auto weight = module->lookupSymbol<WeightOp>(bias);
    CHECK(weight.getRole() == WeightRole::kVector);
    CHECK(weight.getSource().getStackedVectors() == 12);
    CHECK(weight.cols() == 12 * 64);
  }
  MoeLayerOp layer = *module->getOps<MoeLayerOp>().begin();
  CHECK(layer.getActivation() == Activation::kClampedSwiglu);
  CHECK(layer.getAlphaAttr().getValue().convertToFloat() == 1.702f);
  CHECK(layer.getLimitAttr().getValue().convertToFloat() == 7);
}

TEST_CASE("experts say that they are MXFP4, and a resident weight stored so is BF16") {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = buildCase(context, "gpt_oss");
  MoeLayerOp layer = *module->getOps<MoeLayerOp>().begin();
  for (ExpertPart part : {ExpertPart::kGate, ExpertPart::kUp, ExpertPart::kDown})
    CHECK(layer.sourceOf(part, 11).getType() == WeightKind::kMxfp4);
  module = moec::buildModel(&context, importCase("gpt_oss").description, "somewhere",
                            [](const moec::WeightSource &) { return moec::StoredType::kMxfp4; });
  REQUIRE(module);
  for (WeightOp weight : module->getOps<WeightOp>())
    CHECK(weight.getSource().getType() == WeightKind::kBF16);
}

TEST_CASE("a description whose shapes disagree is refused by the format's rules") {
  Compiler compiler;
  moec::ModelDescription model = importCase("mixtral").description;
  model.layers[0].attention.key.weight.rows = 33;
  CHECK_FALSE(compiler.build(model));
  CHECK(compiler.message == "'moe.rope' op buffer has width 33, expected 32");
}

TEST_CASE("a tensor that cannot be read is refused with the checkpoint's message") {
  MLIRContext context;
  std::string message;
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  moec::ModelDescription model = importCase("mixtral").description;
  auto refuse = [](const moec::WeightSource &source) -> moert::Result<moec::StoredType> {
    return moert::invalidInput("no tensor ", source.tensor);
  };
  CHECK_FALSE(moec::buildModel(&context, model, "somewhere", refuse));
  CHECK(message == "no tensor model.embed_tokens.weight");
}
