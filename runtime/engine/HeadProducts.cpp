#include "runtime/engine/HeadProducts.h"

#include <algorithm>
#include <cstring>

namespace moert {

void HeadProducts::keep() const {
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t head = 0; head < heads; ++head)
      std::memcpy(dst + row * dstStride + uint64_t(head) * (kept + outputs()),
                  input(head) + row * srcStride + w.shape.cols, kept * sizeof(float));
}

/// The matrix from a row on.
static PagedBytes bytesFrom(const WeightView &w, uint64_t row) {
  return w.bytes.from(row * w.shape.cols * bitsOf(w.format.kind) / 8);
}

void HeadProducts::multiplyRows() const {
  WeightView own = w;
  own.shape.rows = outputs();
  for (uint32_t head = 0; head < heads; ++head) {
    const uint64_t first = uint64_t(head) * outputs();
    own.bytes = bytesFrom(w, first);
    kernels.linearRows(own, input(head), srcStride, rows, firstResult(head) + first, dstStride);
  }
}

void HeadProducts::multiply(uint32_t begin, uint32_t end) const {
  while (begin < end) {
    const uint32_t head = begin * kPanelRows / outputs();
    const uint32_t last = std::min(end, (head + 1) * outputs() / kPanelRows);
    if (last > begin)
      kernels.linearFloat(w, input(head), srcStride, rows, firstResult(head), dstStride, begin,
                          last);
    else
      multiplyShared(begin);
    begin = std::max(last, begin + 1);
  }
}

/// A panel that one head does not fill: computed for each of its heads, which takes its own
/// results.
void HeadProducts::multiplyShared(uint32_t panel) const {
  const uint32_t first = panel * kPanelRows, last = std::min(w.shape.rows, first + kPanelRows);
  WeightView single = w;
  single.shape.rows = last - first;
  single.bytes = bytesFrom(w, first);
  alignas(kBufferAlignment) float results[kPanelRows];
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t output = first; output < last;) {
      const uint32_t head = output / outputs(), end = std::min(last, (head + 1) * outputs());
      kernels.linearFloat(single, input(head) + row * srcStride, srcStride, 1, results, kPanelRows,
                          0, 1);
      std::memcpy(firstResult(head) + row * dstStride + output, results + (output - first),
                  (end - output) * sizeof(float));
      output = end;
    }
}

} // namespace moert
