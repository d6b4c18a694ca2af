// Verifiers of the dialect's attributes and types.
#include "compiler/ir/MoeDialect.h"

#include "runtime/policy/Routing.h"

#include "llvm/ADT/StringExtras.h"

namespace mlir::moe {

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

// The runtime's kinds have the same numbers.
static_assert(static_cast<int>(WeightKind::kInt1) == static_cast<int>(moert::WeightKind::kInt1));
static_assert(static_cast<int>(WeightKind::kMxfp4) == static_cast<int>(moert::WeightKind::kMxfp4));
static_assert(static_cast<int>(WeightKind::kNl4) == static_cast<int>(moert::WeightKind::kNl4));
static_assert(static_cast<int>(WeightKind::kInt0) == static_cast<int>(moert::WeightKind::kInt0));
static_assert(static_cast<int>(WeightKind::kNl3) == static_cast<int>(moert::WeightKind::kNl3));
static_assert(static_cast<int>(WeightKind::kIq4Xs) == static_cast<int>(moert::WeightKind::kIq4Xs));
static_assert(static_cast<int>(WeightKind::kBF16) == static_cast<int>(moert::WeightKind::kBF16));
static_assert(static_cast<int>(KvKind::kInt8) == static_cast<int>(moert::KvKind::kInt8));
static_assert(static_cast<int>(BufferKind::kQuantized) ==
              static_cast<int>(moert::BufferKind::kQuantized));
static_assert(static_cast<int>(BufferKind::kHadamard) ==
              static_cast<int>(moert::BufferKind::kHadamard));
static_assert(static_cast<int>(ExpertPart::kDown) == static_cast<int>(moert::ExpertPart::kDown));
static_assert(static_cast<int>(NormKind::kLayer) == static_cast<int>(moert::NormKind::kLayer));
static_assert(static_cast<int>(RouterScoring::kSqrtSoftplus) ==
              static_cast<int>(moert::RouterScoring::kSqrtSoftplus));
static_assert(static_cast<int>(Activation::kRelu) == static_cast<int>(moert::Activation::kRelu));
static_assert(static_cast<int>(AttendedRange::kInputAndEarlier) ==
              static_cast<int>(moert::AttendedRange::kInputAndEarlier));
static_assert(static_cast<int>(GroupScore::kTwoLargest) ==
              static_cast<int>(moert::GroupScore::kTwoLargest));
static_assert(static_cast<int>(CapacityKind::kEvenSplit) ==
              static_cast<int>(moert::CapacityKind::kEvenSplit));
static_assert(static_cast<int>(Activation::kClampedSwiglu) ==
              static_cast<int>(moert::Activation::kClampedSwiglu));
static_assert(static_cast<int>(RowFunction::kTanh) == static_cast<int>(moert::RowFunction::kTanh));
static_assert(static_cast<int>(RopeStyle::kInterleaved) ==
              static_cast<int>(moert::RopeStyle::kInterleaved));

LogicalResult SourceAttr::verify(EmitError emitError, StringRef tensor, uint32_t rows,
                                 uint32_t cols, WeightKind type, int64_t index,
                                 uint32_t /*firstRow*/, uint32_t rowStep, bool /*transposed*/,
                                 uint32_t blocks, uint32_t /*blockStep*/, uint32_t stackedVectors,
                                 bool /*addsOne*/, bool /*integers*/, uint32_t shards) {
  if (tensor.empty())
    return emitError() << "a source without a tensor";
  if (rows == 0 || cols == 0)
    return emitError() << "a source of " << rows << " x " << cols << ", expected at least 1 x 1";
  const auto kind = static_cast<moert::WeightKind>(type);
  if (moert::isKept(kind) && cols % moert::floatFormat(kind).group != 0)
    return emitError() << "a source of " << stringifyWeightKind(type) << " with " << cols
                       << " inputs, expected a multiple of " << moert::floatFormat(kind).group;
  if (index < kAbsent || index > UINT32_MAX)
    return emitError() << "a source with index " << index;
  if (shards == 0 || (rows > 1 ? rows : cols) % shards != 0)
    return emitError() << "a source of " << rows << " x " << cols << " in " << shards
                       << " shards, expected a divisor of its rows, or of a vector's elements";
  if (shards > 1 && !tensor.contains('*'))
    return emitError() << "a source in " << shards << " shards without '*' in its tensor's name";
  if (rowStep == 0)
    return emitError() << "a source with a row step of 0";
  if (blocks == 0 || rows % blocks != 0)
    return emitError() << "a source of " << rows << " rows in " << blocks
                       << " blocks, expected a divisor";
  if (stackedVectors != 0 && rows != 1)
    return emitError() << "a source of " << rows << " rows from " << stackedVectors
                       << " vectors, expected 1 row";
  return success();
}

LogicalResult FormatAttr::verify(EmitError emitError, WeightKind kind, uint32_t group,
                                 uint32_t activationGroup, bool offsets, bool refines,
                                 bool byteScales, bool hadamard) {
  moert::Status status =
      moert::checkFormat({static_cast<moert::WeightKind>(kind), group, activationGroup, offsets,
                          refines, byteScales, hadamard});
  return status.isOk() ? success() : emitError() << status.message();
}

LogicalResult ExpertMatrixAttr::verify(EmitError emitError, ExpertPart part,
                                       ArrayRef<SourceAttr> sources) {
  if (sources.empty())
    return emitError() << stringifyExpertPart(part) << " without a source";
  for (SourceAttr source : sources)
    if (shapeOf(source) != shapeOf(sources.front()))
      return emitError() << stringifyExpertPart(part) << " matrices of "
                         << sources.front().getRows() << " x " << sources.front().getCols()
                         << " and of " << source.getRows() << " x " << source.getCols()
                         << " in one layer";
  return success();
}

LogicalResult ArtifactAttr::verify(EmitError emitError, StringRef path, uint64_t /*weights*/,
                                   uint64_t /*paths*/, uint64_t /*trace*/, ArrayAttr provenance) {
  if (path.empty())
    return emitError() << "an artifact without a path";
  for (Attribute entry : provenance) {
    auto pair = dyn_cast<ArrayAttr>(entry);
    if (!pair || pair.size() != 2 || !llvm::all_of(pair, llvm::IsaPred<StringAttr>))
      return emitError() << "provenance " << entry << ", expected a key and a value, both strings";
  }
  return success();
}

LogicalResult ModelAttr::verify(EmitError emitError, StringRef type, uint32_t vocabulary,
                                uint32_t hidden, uint32_t layers, uint32_t maxPositions,
                                DenseI32ArrayAttr /*eos*/, StringRef /*checkpoint*/, int64_t bos) {
  if (bos < kAbsent || bos > INT32_MAX)
    return emitError() << "a model with the BOS token " << bos;
  if (type.empty() || vocabulary == 0 || hidden == 0 || layers == 0 || maxPositions == 0)
    return emitError()
           << "a model without a type, or with a vocabulary, hidden size, layers or positions of 0";
  return success();
}

LogicalResult RowType::verify(EmitError emitError, BufferKind kind, uint32_t width, uint32_t group,
                              uint32_t rows) {
  if (width == 0 || rows == 0 || rows > moert::kMaxRowsPerToken)
    return emitError() << rows << " rows of width " << width << ", expected 1 to "
                       << moert::kMaxRowsPerToken << " of width 1 or more";
  const bool isQuantized = moert::isQuantized(static_cast<moert::BufferKind>(kind));
  if (!isQuantized && group != 0)
    return emitError() << "a group in a row of " << stringifyBufferKind(kind);
  if (isQuantized && group != 16 && group != 32 && group != 64)
    return emitError() << "a quantized row with group " << group << ", expected 16, 32 or 64";
  return success();
}

} // namespace mlir::moe
