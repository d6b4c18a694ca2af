#include "passes/PlaceBuffers.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace mlir::moe {

static bool overlapInTime(const Lifetime &a, const Lifetime &b) {
  return a.first <= b.last && b.first <= a.last;
}

// Finding the smallest arena is NP-hard. On lists of this kind, where layers repeat, largest first
// is within a few percent of the live bytes at the fullest instruction.
std::vector<uint64_t> placeBuffers(std::span<const Lifetime> lifetimes) {
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Lifetime &x = lifetimes[a], &y = lifetimes[b];
    return std::tuple(y.bytes, x.first, a) < std::tuple(x.bytes, y.first, b);
  });

  std::vector<uint64_t> offsets(lifetimes.size());
  std::vector<size_t> placed; // By offset.
  for (size_t i : order) {
    uint64_t offset = 0;
    for (size_t j : placed) {
      if (!overlapInTime(lifetimes[i], lifetimes[j]))
        continue;
      if (offset + lifetimes[i].bytes <= offsets[j])
        break; // Fits below j; the buffers after j have higher offsets.
      offset = std::max(offset, offsets[j] + lifetimes[j].bytes);
    }
    offsets[i] = offset;
    auto above =
        std::find_if(placed.begin(), placed.end(), [&](size_t j) { return offsets[j] > offset; });
    placed.insert(above, i);
  }
  return offsets;
}

SmallVector<BufferOp> buffersOf(Block &block) {
  return llvm::to_vector(block.getOps<BufferOp>());
}

uint64_t placeProgram(ProgramOp program) {
  SmallVector<BufferOp> buffers = buffersOf(program.getBody().front());
  DenseMap<Value, Lifetime> lifetimes;
  uint32_t instruction = 0;
  for (Operation &op : program.getBody().front()) {
    if (isa<BufferOp>(op))
      continue;
    // Joined instructions are computed together, so their results must not overlap.
    if (op.hasAttr("joined"))
      --instruction;
    for (Value buffer : op.getOperands()) {
      auto [entry, isNew] = lifetimes.try_emplace(
          buffer, Lifetime{cast<BufferType>(buffer.getType()).bytesPerToken(), instruction, 0});
      entry->second.last = instruction;
    }
    ++instruction;
  }
  std::vector<Lifetime> ordered;
  for (BufferOp buffer : buffers)
    ordered.push_back(lifetimes.lookup(buffer));
  std::vector<uint64_t> offsets = placeBuffers(ordered);
  uint64_t arenaBytes = 0;
  for (auto [buffer, lifetime, offset] : llvm::zip_equal(buffers, ordered, offsets)) {
    buffer.setOffset(static_cast<int64_t>(offset));
    arenaBytes = std::max(arenaBytes, offset + lifetime.bytes);
  }
  return arenaBytes;
}

void mergePlaces(ProgramOp program) {
  DenseMap<std::pair<Type, Attribute>, BufferOp> places;
  for (BufferOp buffer : buffersOf(program.getBody().front())) {
    if (!buffer.getOffset())
      continue;
    auto [entry, isNew] = places.try_emplace({buffer.getType(), buffer.getOffsetAttr()}, buffer);
    if (isNew)
      continue;
    buffer.replaceAllUsesWith(entry->second.getBuffer());
    buffer.erase();
  }
}

} // namespace mlir::moe
