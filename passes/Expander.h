// Expands the ops on layers of a function into instructions (ExpandProgram.h): the class whose
// members are in ExpandProgram.cpp and, for the mixers that keep a state, in ExpandState.cpp.
#pragma once

#include "passes/JoinProducts.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace mlir::moe {

/// Expands one function. Values of the function become buffers of the program; a buffer is
/// overwritten in place where its value has no later use and Instruction.h allows it.
class Expander {
public:
  explicit Expander(func::FuncOp from)
      : function(from), module(from->getParentOfType<ModuleOp>()), symbols(module),
        builder(from.getContext()),
        program(ProgramOp::create(builder, from.getLoc(), from.getSymName())) {}

  FailureOr<OwningOpRef<ProgramOp>> expand();

private:
  LogicalResult expandOp(Operation *op);
  LogicalResult expand(EmbedOp op);
  LogicalResult expand(NormOp op);
  LogicalResult expand(AttentionOp op);
  LogicalResult expand(LatentAttentionOp op);
  LogicalResult expand(DeltaNetOp op);
  LogicalResult expand(ShortConvolutionOp op);
  LogicalResult expand(RouteOp op);
  LogicalResult expand(PredictOp op);
  LogicalResult expand(ExpertsOp op);
  LogicalResult expand(SharedExpertOp op);
  LogicalResult expand(DenseOp op);
  LogicalResult expand(AddOp op);
  LogicalResult expand(ScaleOp op);
  LogicalResult expand(HeadOp op);

  template <typename OpT> OpT symbol(FlatSymbolRefAttr name) {
    return symbols.lookup<OpT>(name.getValue());
  }

  Value newBuffer(BufferKind kind, uint64_t width, uint64_t group = 0);
  Value newRow(uint64_t width) { return newBuffer(BufferKind::kF32, width); }
  template <typename OpT, typename... Args> void execute(Location loc, Args &&...args);
  Value inputFor(Location loc, FormatAttr format, Value row);
  FailureOr<Value> linear(Operation *op, LinearAttr linear, Value input,
                          ProductRole role = ProductRole::kDense);
  FailureOr<Value> glu(Operation *op, GluAttr network, Value input);
  FailureOr<Value> convolve(Operation *op, ConvolvedAttr convolved, Value row, bool silu);
  void beginReads();
  void headNorm(Location loc, std::optional<NormAttr> norm, Value row);
  Value valueOf(AttentionOp op, Value key, Value value);

  Value bufferOf(Value value) { return buffers.at(value); }
  bool isLastUse(Value value, Operation *op);

  func::FuncOp function;
  ModuleOp module;
  SymbolTable symbols;
  OpBuilder builder;
  OwningOpRef<ProgramOp> program;
  Operation *lastBuffer = nullptr;
  Attribute layer;                                  // The layer of the op being expanded.
  DenseMap<Value, Value> buffers;                   // Value of the function to its buffer.
  DenseMap<Value, SmallVector<Value, 1>> quantized; // Row to its quantized copies, by group.
};

/// Appends an instruction and discards quantized copies of values that it overwrites.
template <typename OpT, typename... Args> void Expander::execute(Location loc, Args &&...args) {
  auto op = OpT::create(builder, loc, std::forward<Args>(args)...);
  if (layer)
    op->setAttr(kLayerAttr, layer);
  if constexpr (std::is_same_v<OpT, ExecLinearOp> || std::is_same_v<OpT, ExecPredictOp>)
    join(op);
  SmallVector<MemoryEffects::EffectInstance> effects;
  op.getEffects(effects);
  for (const MemoryEffects::EffectInstance &effect : effects)
    if (isa<MemoryEffects::Write>(effect.getEffect()))
      quantized.erase(effect.getValue());
}

inline uint64_t widthOf(Value rows) {
  return static_cast<uint64_t>(cast<RankedTensorType>(rows.getType()).getDimSize(1));
}

} // namespace mlir::moe
