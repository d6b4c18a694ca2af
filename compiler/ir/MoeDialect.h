// The dialect `moe`: the declarations generated from MoeDialect.td, MoeAttrs.td, MoeChoiceAttrs.td,
// MoeOps.td and the instructions of runtime/format/Instruction.h, and the conversion of its
// attributes to the runtime's plain data. The .td files are its documentation.
#pragma once

#include "runtime/format/Artifact.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir::moe {
/// An absent index or token id.
constexpr int64_t kAbsent = -1;
} // namespace mlir::moe

#include "compiler/ir/MoeDialect.h.inc"
#include "compiler/ir/MoeEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/ir/MoeAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/ir/MoeTypes.h.inc"

namespace mlir::moe {

/// Read by attend and written by store_kv.
struct KvCacheResource : SideEffects::Resource::Base<KvCacheResource> {
  StringRef getName() final { return "KvCache"; }
};
/// Read and written by convolve and delta_rule.
struct StatesResource : SideEffects::Resource::Base<StatesResource> {
  StringRef getName() final { return "States"; }
};
/// What a step gives to others than instructions: logits and prefetch candidates.
struct OutputsResource : SideEffects::Resource::Base<OutputsResource> {
  StringRef getName() final { return "Outputs"; }
};

// Names of the module's attributes; MoeDialect.td defines their values.
constexpr llvm::StringLiteral kModelAttr = "moe.model";
constexpr llvm::StringLiteral kQuantizerAttr = "moe.quantizer";
constexpr llvm::StringLiteral kArtifactAttr = "moe.artifact";
constexpr llvm::StringLiteral kChatAttr = "moe.chat";
constexpr llvm::StringLiteral kSamplingAttr = "moe.sampling";
constexpr llvm::StringLiteral kQuickLossAttr = "moe.quick_loss";
constexpr llvm::StringLiteral kMeasuredAttr = "moe.measured";
constexpr llvm::StringLiteral kWidthsByAttr = "moe.widths_by";
constexpr llvm::StringLiteral kClassNamesAttr = "moe.class_names";
constexpr llvm::StringLiteral kExpertBitsAttr = "moe.expert_bits";
constexpr llvm::StringLiteral kExpertDownBitsAttr = "moe.expert_down_bits";
constexpr llvm::StringLiteral kResidentBitsAttr = "moe.resident_bits";
constexpr llvm::StringLiteral kHeadBitsAttr = "moe.head_bits";
constexpr llvm::StringLiteral kKvBitsAttr = "moe.kv_bits";
constexpr llvm::StringLiteral kPageBytesAttr = "moe.page_bytes";
constexpr llvm::StringLiteral kPlansAttr = "moe.plans";

/// On instructions: the model's layer that they belong to, an i32.
constexpr llvm::StringLiteral kLayerAttr = "moe.layer";
/// On instructions: the offsets in the arena of the rows that they write, and of their scratch.
constexpr llvm::StringLiteral kOffsetsAttr = "moe.offsets";

/// In the tensor name of a source for all experts of a layer, stands for the expert's number.
constexpr llvm::StringLiteral kExpertPlaceholder = "{expert}";

} // namespace mlir::moe

#define GET_OP_CLASSES
#include "compiler/ir/MoeOps.h.inc"

namespace mlir::moe {

/// The format as the runtime's type.
moert::WeightFormat toWeightFormat(FormatAttr format);
FormatAttr toFormatAttr(MLIRContext *context, const moert::WeightFormat &format);
moert::MatrixShape shapeOf(SourceAttr source);
/// Part and shape of each matrix of a layer; without experts.
moert::MoeLayer matricesOf(MoeLayerOp layer);

/// Emits a failed Status as a diagnostic at the op.
LogicalResult emitStatus(Operation *op, const moert::Status &status);

} // namespace mlir::moe
