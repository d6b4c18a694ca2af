#include "compiler/ir/SourceAttrs.h"

namespace mlir::moe {

WeightKind kindOf(moec::StoredType type) {
  return static_cast<WeightKind>(moec::weightKindOf(type));
}

SmallVector<SourceAttr> compact(ArrayRef<SourceAttr> sources) {
  if (sources.size() < 2)
    return llvm::to_vector(sources);
  SourceAttr first = sources[0];
  StringRef zero = first.getTensor(), one = sources[1].getTensor();
  bool isStacked = zero == one;
  size_t prefix =
      std::mismatch(zero.begin(), zero.end(), one.begin(), one.end()).first - zero.begin();
  StringRef before = zero.take_front(prefix),
            after = zero.drop_front(std::min(prefix + 1, zero.size()));
  for (auto [expert, source] : llvm::enumerate(sources)) {
    std::string tensor = isStacked ? zero.str() : (before + Twine(expert) + after).str();
    int64_t index = isStacked ? static_cast<int64_t>(expert) : first.getIndex();
    if (source != SourceAttr::get(first.getContext(), tensor, first.getRows(), first.getCols(),
                                  first.getType(), index, first.getFirstRow(), first.getRowStep(),
                                  first.getTransposed(), first.getBlocks(), first.getBlockStep(),
                                  first.getStackedVectors(), first.getAddsOne(),
                                  first.getIntegers(), first.getShards()))
      return llvm::to_vector(sources);
  }
  std::string tensor = isStacked ? zero.str() : (before + kExpertPlaceholder + after).str();
  int64_t index = isStacked ? kAbsent : first.getIndex();
  return {SourceAttr::get(first.getContext(), tensor, first.getRows(), first.getCols(),
                          first.getType(), index, first.getFirstRow(), first.getRowStep(),
                          first.getTransposed(), first.getBlocks(), first.getBlockStep(),
                          first.getStackedVectors(), first.getAddsOne(), first.getIntegers(),
                          first.getShards())};
}

} // namespace mlir::moe
