// Builds the IR of a model (BuildModel.h): the class whose members are in BuildModel.cpp and, for
// the mixers that keep a state, in BuildStateMixers.cpp.
#pragma once

#include "compiler/ir/BuildModel.h"
#include "compiler/ir/MoeDialect.h"

#include "mlir/IR/Builders.h"

namespace moec {

using namespace mlir;
using namespace mlir::moe;
// Some enumerations have the same names in the model's description and in the dialect.
namespace ir = mlir::moe;

/// Those of a mixer that keeps a state.
struct StateMixerSymbols {
  ConvolvedAttr query, key, value;
  LinearAttr before, gate, decay, write, output;
  NormAttr outputNorm;
  FlatSymbolRefAttr logRate, decayBias, slot;
};

/// Symbols that the ops of a layer refer to; both functions use the same ones.
struct LayerSymbols {
  NormAttr attentionNorm, attentionOutputNorm, networkNorm, networkOutputNorm, queryNorm, keyNorm;
  NormAttr latentNorm, routerNorm, expertsNorm, expertsOutputNorm, sharedNorm, sharedOutputNorm;
  LinearAttr query, queryDown, key, value, output, router, sharedGate, attentionGate;
  FlatSymbolRefAttr kvSlot, rope, moeLayer, choiceBias, keyUp, valueUp, sinks;
  FlatSymbolRefAttr weightFactors, outputScale;
  FlatSymbolRefAttr gateBias, upBias, downBias;
  GluAttr dense, shared;
  StateMixerSymbols state;
};

/// Whether the weights become resident or belong to experts.
enum class SourceOf { kResident, kExpert };

/// Builds one module. Errors are emitted at once and recorded; a module with an error is discarded
/// as a whole.
class ModelBuilder {
public:
  ModelBuilder(MLIRContext *context, const ModelDescription &description, StoredTypeOf typeOf)
      : model(description), storedTypeOf(typeOf), builder(context),
        module(ModuleOp::create(builder.getUnknownLoc())) {
    builder.setInsertionPointToEnd(module->getBody());
  }

  OwningOpRef<ModuleOp> build(StringRef checkpointDirectory);

private:
  void declareSymbols();
  LayerSymbols declareLayer(size_t number);
  void declareAttention(LayerSymbols &symbols, const Twine &prefix,
                        const AttentionDescription &attention);
  void declareLatentAttention(LayerSymbols &symbols, const Twine &prefix,
                              const LatentAttentionDescription &attention);
  FlatSymbolRefAttr kvSlot(const Twine &name, uint32_t heads, uint32_t keyDim, uint32_t valueDim);
  void declareDeltaNet(StateMixerSymbols &symbols, const Twine &prefix,
                       const DeltaNetDescription &net);
  void declareShortConvolution(StateMixerSymbols &symbols, const Twine &prefix,
                               const ShortConvolutionDescription &mixer);
  FlatSymbolRefAttr stateSlot(const Twine &name, uint32_t slotRows, uint32_t width);
  ConvolvedAttr convolved(const Twine &name, const ConvolvedDescription &from);
  void declareMoe(LayerSymbols &symbols, size_t number, const MoeDescription &moe);
  SourceAttr sourceOf(Location loc, const WeightSource &source, SourceOf use);
  FlatSymbolRefAttr weight(const Twine &name, const WeightSource &source, WeightRole role);
  LinearAttr linear(const Twine &name, const LinearDescription &from,
                    WeightRole role = WeightRole::kMatrix);
  NormAttr norm(const Twine &name, const NormDescription &from);
  NormAttr norm(const Twine &name, const std::optional<NormDescription> &from) {
    return from ? norm(name, *from) : NormAttr();
  }
  GluAttr glu(const Twine &name, const GluDescription &network);
  ExpertMatrixAttr expertMatrix(Location loc, ExpertPart part, const MoeDescription &moe,
                                LinearDescription GluDescription::*matrix);

  void buildFunction(StringRef name);
  Value buildLayer(Value hidden, size_t number);
  Value buildAttention(Location loc, Value normed, const LayerDescription &layer,
                       const LayerSymbols &symbols);
  Value buildDeltaNet(Location loc, Value normed, const DeltaNetDescription &net,
                      const StateMixerSymbols &symbols);
  Value buildShortConvolution(Location loc, Value normed, const StateMixerSymbols &symbols);
  Value normalized(Location loc, Value row, NormAttr by);
  Value scaled(Location loc, Value row, float factor, FlatSymbolRefAttr weight);
  Value buildMoe(Location loc, Value input, const MoeDescription &moe, const LayerSymbols &symbols);

  Location named(const Twine &name) {
    return NameLoc::get(builder.getStringAttr(name), builder.getUnknownLoc());
  }
  FloatAttr f32(float value) { return builder.getF32FloatAttr(value); }
  /// A number of an activation; absent where it has none.
  FloatAttr numberOf(const moert::GluActivation &activation, float value) {
    return activation.kind == moert::Activation::kClampedSwiglu ? f32(value) : FloatAttr();
  }
  RankedTensorType rows(Type element, uint32_t width) {
    return RankedTensorType::get({ShapedType::kDynamic, width}, element);
  }

  const ModelDescription &model;
  StoredTypeOf storedTypeOf;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
  bool hasFailed = false;

  FlatSymbolRefAttr embedding;
  LinearAttr head;
  NormAttr finalNorm;
  std::vector<FlatSymbolRefAttr> ropes;
  std::vector<LayerSymbols> layers;
  StringRef widthClass; // The next weights have it.
};

} // namespace moec
