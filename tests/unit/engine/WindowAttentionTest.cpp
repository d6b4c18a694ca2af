// Attention within windows against float64, and its bits with every version of the kernels.
#include "runtime/engine/WindowAttention.h"
#include "tests/unit/kernels/TestMatrices.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>

using namespace moert;
using namespace moert::test;

namespace {

constexpr uint32_t kHeads = 3, kHeadDim = 20, kImages = 2;

struct Case {
  uint32_t side, window, shift;
};
// Windows that tile the grid, that are shifted, of an odd size, and one that covers it.
constexpr Case kCases[] = {{8, 4, 0}, {8, 4, 2}, {6, 3, 1}, {5, 5, 0}, {4, 2, 1}};

struct Grid {
  Grid(Random &random, const Case &c)
      : attend{0, 0, 0, 0, 0, kHeads, c.side, c.window, c.shift, 0.3f},
        query(rows(), kHeads * kHeadDim), key(rows(), kHeads * kHeadDim),
        value(rows(), kHeads * kHeadDim), bias(1, kHeads * span() * span()) {
    for (FloatRows *each : {&query, &key, &value, &bias})
      each->fill(random, -1, 1);
  }
  uint32_t rows() const { return kImages * attend.side * attend.side; }
  uint32_t span() const { return 2 * attend.window - 1; }
  FloatRows computed(const KernelTable &kernels) const {
    FloatRows out(rows(), kHeads * kHeadDim);
    FloatRows scratch(1, uint32_t(windowScratchFloats(attend.window, kHeadDim)));
    const WindowAttention attention = {kernels,      attend,      kHeadDim,
                                       query.data(), key.data(),  value.data(),
                                       out.stride(), bias.data(), out.data()};
    for (uint32_t image = 0; image < kImages; ++image)
      for (uint64_t i = 0; i < attention.headsOfImage(); ++i)
        attention.compute(image * attend.side * attend.side, i, scratch.data());
    CHECK(out.isGuardIntact());
    CHECK(scratch.isGuardIntact());
    return out;
  }

  AttendWindowsInstruction attend;
  FloatRows query, key, value, bias;
};

/// As the reference implementation has it: the grid is rolled by the shift, windows tile it, and
/// rows of a window see each other if no edge was rolled in between.
struct Rolled {
  uint32_t window;
  bool isWrapped;
};
Rolled rolled(uint32_t line, const AttendWindowsInstruction &attend) {
  const uint32_t moved = (line + attend.side - attend.shift) % attend.side;
  return {moved / attend.window, moved >= attend.side - attend.shift};
}
bool seesLine(uint32_t a, uint32_t b, const AttendWindowsInstruction &attend) {
  const Rolled first = rolled(a, attend), second = rolled(b, attend);
  return first.window == second.window && first.isWrapped == second.isWrapped;
}

double expected(const Grid &grid, uint32_t row, uint32_t head, uint32_t element) {
  const uint32_t side = grid.attend.side, each = side * side, image = row / each;
  const uint32_t y = row % each / side, x = row % side;
  std::map<uint32_t, double> scores;
  double sum = 0, result = 0;
  for (uint32_t i = 0; i < side; ++i)
    for (uint32_t j = 0; j < side; ++j) {
      if (!seesLine(y, i, grid.attend) || !seesLine(x, j, grid.attend))
        continue;
      const uint32_t other = image * each + i * side + j, last = grid.attend.window - 1;
      double product = 0;
      for (uint32_t d = 0; d < kHeadDim; ++d)
        product += double(grid.query.at(row, head * kHeadDim + d)) *
                   grid.key.at(other, head * kHeadDim + d);
      const uint32_t at = (head * grid.span() + (y + last - i)) * grid.span() + (x + last - j);
      sum += scores[other] =
          std::exp(double(grid.attend.scale) * product + double(grid.bias.at(0, at)));
    }
  for (const auto &[other, score] : scores)
    result += score / sum * grid.value.at(other, head * kHeadDim + element);
  return result;
}

} // namespace

TEST_CASE("a row attends to its window, with a bias for the offset, and not across an edge") {
  Random random(3);
  for (const Case &c : kCases) {
    CAPTURE(c.side);
    CAPTURE(c.shift);
    const Grid grid(random, c);
    const FloatRows out = grid.computed(referenceKernels());
    for (uint32_t row = 0; row < grid.rows(); ++row)
      for (uint32_t head = 0; head < kHeads; ++head)
        for (const uint32_t element : {0u, 7u, 19u})
          CHECK(std::fabs(out.at(row, head * kHeadDim + element) -
                          expected(grid, row, head, element)) < 1e-6);
  }
}

TEST_CASE("attention within windows has the reference's bytes with every version") {
  Random random(4);
  for (const Case &c : kCases) {
    const Grid grid(random, c);
    const FloatRows reference = grid.computed(referenceKernels());
    forEachVersion([&](const KernelTable &kernels) {
      const FloatRows out = grid.computed(kernels);
      for (uint32_t row = 0; row < grid.rows(); ++row)
        CHECK(std::memcmp(&out.at(row, 0), &reference.at(row, 0),
                          kHeads * kHeadDim * sizeof(float)) == 0);
    });
  }
}
