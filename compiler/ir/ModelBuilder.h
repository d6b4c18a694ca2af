// Builds the IR of a model (BuildModel.h): the class whose members are in BuildModel.cpp (symbols)
// and BuildLayers.cpp (programs).
#pragma once

#include "compiler/ir/BuildModel.h"
#include "compiler/ir/MoeDialect.h"

#include "mlir/IR/Builders.h"

namespace moec {

using namespace mlir;
using namespace mlir::moe;
// Some enumerations have the same names in the model's description and in the dialect.
namespace ir = mlir::moe;

/// Whether the weights become resident or belong to experts.
enum class SourceOf { kResident, kExpert };

inline uint32_t widthOf(mlir::Value value) {
  return mlir::cast<RowType>(value.getType()).getWidth();
}

/// Builds one module. Errors are emitted at once and recorded; a module with an error is discarded
/// as a whole. Symbols are declared first; programs refer to them by the same names.
class ModelBuilder {
public:
  ModelBuilder(MLIRContext *context, const ModelDescription &description, StoredTypeOf typeOf)
      : model(description), storedTypeOf(typeOf), builder(context),
        module(ModuleOp::create(builder.getUnknownLoc())), where(builder.getUnknownLoc()) {
    builder.setInsertionPointToEnd(module->getBody());
  }

  OwningOpRef<ModuleOp> build(StringRef checkpointDirectory);

private:
  void declareSymbols();
  void declareRopes();
  void declareLayer(const std::string &name, const LayerDescription &layer, size_t number);
  void declare(const std::string &layer, const AttentionDescription &attention);
  void declare(const std::string &layer, const LatentAttentionDescription &attention);
  void declare(const std::string &layer, const CompressedAttentionDescription &attention);
  void declare(const std::string &name, const IndexerDescription &indexer);
  /// width: of the pools' keys.
  void declare(const std::string &name, const PoolDescription &pool, uint32_t width);
  void declare(const std::string &name, const StreamMixDescription &mix);
  void declare(const std::string &name, const StreamGateDescription &gate);
  void declare(const std::string &name, const NgramDescription &ngrams);
  void declare(const std::string &layer, const DeltaNetDescription &net);
  void declare(const std::string &layer, const ShortConvolutionDescription &mixer);
  void declare(const std::string &layer, const StateSpaceDescription &space);
  void declare(const std::string &layer, const SelectiveScanDescription &scan);
  void declare(const std::string &layer, const WindowAttentionDescription &attention);
  void declare(const std::string &name, const PatchesDescription &patches);
  void declare(const std::string &name, const MergeDescription &merge);
  void declareMixer(const std::string &name, const LayerDescription &layer);
  void declare(const std::string &layer, const MoeDescription &moe, size_t number);
  /// The slot of an attention's keys and values. The layers of an encoder share one: each stores
  /// those of the whole input before it attends.
  std::string slotOf(const std::string &layer, const AttentionDescription &attention) const;
  void declareKvSlot(const std::string &name, uint32_t heads, uint32_t keyDim, uint32_t valueDim);
  void declareStateSlot(const std::string &name, uint32_t rows, uint32_t width);
  SourceAttr sourceOf(Location loc, const WeightSource &source, SourceOf use);
  void declare(const std::string &name, const WeightSource &source, WeightRole role);
  void declare(const std::string &name, const LinearDescription &from,
               WeightRole role = WeightRole::kMatrix);
  void declare(const std::string &name, const NormDescription &from);
  void declare(const std::string &name, const ConvolvedDescription &from);
  void declare(const std::string &name, const GluDescription &network);
  template <typename T> void declare(const std::string &name, const std::optional<T> &from) {
    if (from)
      declare(name, *from);
  }
  ExpertMatrixAttr expertMatrix(Location loc, ExpertPart part, const MoeDescription &moe,
                                LinearDescription GluDescription::*matrix);

  void buildProgram(StringRef name);
  Value embedded();
  Value buildLayer(const std::string &name, const LayerDescription &layer, Value hidden);
  Value buildMixer(const std::string &layer, const LayerDescription &from, Value input);
  Value build(const std::string &layer, const AttentionDescription &attention, Value input);
  Value attended(const std::string &layer, const AttentionDescription &attention, Value query);
  /// Attention of a decoder's layer to the encoder's output; storeCross() has stored its keys and
  /// values.
  Value buildCross(const std::string &name, const AttentionDescription &attention, Value input);
  void storeCross(const std::string &name, const AttentionDescription &attention, Value encoded);
  Value build(const std::string &layer, const LatentAttentionDescription &attention, Value input);
  Value build(const std::string &layer, const CompressedAttentionDescription &attention,
              Value input);
  /// Sets chosenKeys; `latent` is what the queries come from. With a window, the last keys are in
  /// the list of pools too.
  void choose(const std::string &name, const IndexerDescription &indexer, Value input, Value latent,
              uint32_t window = 0);
  Value pooled(const std::string &name, const PoolDescription &pool, Value keys, Value gate,
               uint32_t width);
  /// A branch's input, and the weights with which its result changes the streams; without a mix
  /// the residual row itself, and none.
  std::pair<Value, Value> beginBranch(const std::string &name,
                                      const std::optional<StreamMixDescription> &mix,
                                      const std::optional<StreamGateDescription> &gate,
                                      Value hidden);
  Value endBranch(Value hidden, Value result, Value weights, bool areGates);
  Value addNgrams(const std::string &name, const NgramDescription &ngrams, Value hidden);
  Value repeated(Value input) {
    return RepeatRowOp::create(builder, where,
                               row(uint64_t(model.streams->count) * model.hiddenSize), input);
  }
  Value scaled(Value input, float factor) {
    return ScaleOp::create(builder, where, input.getType(), input, FlatSymbolRefAttr(),
                           APFloat(factor));
  }
  /// Each stream normalized, times the weights of all.
  Value normedStreams(const std::string &name, const NormDescription &by, Value input) {
    return applied(ir::RowFunction::kIdentity, plainNormed(input, by.epsilon, model.hiddenSize),
                   name, "");
  }
  Value build(const std::string &layer, const DeltaNetDescription &net, Value input);
  Value build(const std::string &layer, const ShortConvolutionDescription &mixer, Value input);
  Value build(const std::string &layer, const StateSpaceDescription &space, Value input);
  Value build(const std::string &layer, const SelectiveScanDescription &scan, Value input);
  Value build(const std::string &layer, const WindowAttentionDescription &attention, Value input);
  Value build(const PatchesDescription &patches);
  Value build(const std::string &name, const MergeDescription &merge, Value input);
  Value build(const std::string &layer, const MoeDescription &moe, Value input);
  Value build(const std::string &layer, const SharedExpertDescription &shared, Value input);
  Value build(const std::string &name, const GluDescription &network, Value input);
  Value product(const std::string &name, const LinearDescription &of, Value input,
                ProductRole role = ProductRole::kDense);
  Value attentionProduct(const std::string &name, const LinearDescription &of, Value input) {
    return product(name, of, input, ProductRole::kAttention);
  }
  Value normed(const std::string &name, const std::optional<NormDescription> &by, Value input);
  Value normedRuns(const std::string &name, const NormDescription &by, Value input,
                   uint32_t segment);
  Value plainNormed(Value input, float epsilon, uint32_t segment);
  Value convolved(const std::string &name, Value input, bool silu);
  Value activeConvolved(const std::string &name, const ConvolvedDescription &of, Value input);
  /// function(factor * input + bias) with the weights of these names; "" is none.
  Value applied(ir::RowFunction function, Value input, const std::string &factor = "",
                const std::string &bias = "");
  Value stepped(const std::string &layer, Value input) {
    return applied(ir::RowFunction::kSoftplus, input, "", layer + ".step_bias");
  }
  Value rotated(const std::optional<uint32_t> &rope, Value input, uint32_t heads, uint32_t headDim);
  /// Rotates each head from an element on, and a pool's key as its first token.
  Value rotatedPart(const std::optional<uint32_t> &rope, Value input, uint32_t heads,
                    uint32_t headDim, uint32_t first, uint32_t poolTokens, bool inverse = false);
  Value gated(Value input, Value gate, ir::GateKind kind);
  Value scaledByPosition(const std::optional<PositionScale> &by, Value input);
  Value activated(const moert::GluActivation &by, Value gate, Value up);
  Value sum(Value a, Value b, float scale);

  Location named(const Twine &name) {
    return NameLoc::get(builder.getStringAttr(name), builder.getUnknownLoc());
  }
  FloatAttr f32(float value) { return builder.getF32FloatAttr(value); }
  /// A number of an activation; absent where it has none.
  FloatAttr numberOf(const moert::GluActivation &activation, float value) {
    return moert::isClamped(activation.kind) ? f32(value) : FloatAttr();
  }
  FlatSymbolRefAttr symbol(const std::string &name) {
    return FlatSymbolRefAttr::get(builder.getContext(), name);
  }
  /// The symbol of an optional weight; null where it is absent.
  FlatSymbolRefAttr symbol(const std::string &name, const std::optional<WeightSource> &of) {
    return of ? symbol(name) : FlatSymbolRefAttr();
  }
  RowType numbers(uint32_t width) {
    return RowType::get(builder.getContext(), BufferKind::kI32, width, 0, rowsPerToken);
  }
  RowType row(uint64_t width) {
    return RowType::get(builder.getContext(), BufferKind::kF32, static_cast<uint32_t>(width), 0,
                        rowsPerToken);
  }

  const ModelDescription &model;
  StoredTypeOf storedTypeOf;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
  bool hasFailed = false;
  StringRef widthClass;      // The next weights have it.
  Location where;            // Location of the next instructions.
  Value chosenKeys;          // By the program's last indexer.
  uint32_t rowsPerToken = 1; // That the next rows have.
};

} // namespace moec
