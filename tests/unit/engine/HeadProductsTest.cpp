// Products per head against float64, for heads that fill panels and heads that share them.
#include "runtime/engine/HeadProducts.h"
#include "tests/unit/kernels/TestMatrices.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moert;
using namespace moert::test;

namespace {

struct Case {
  uint32_t heads, outputs, cols, kept;
};

// Whole panels, panels of two and of many heads, a last panel that is not full, row layout.
constexpr Case kCases[] = {{4, 32, 24, 16}, {5, 20, 32, 0}, {7, 3, 40, 8},
                           {3, 48, 300, 5}, {1, 33, 17, 2}, {2, 5, 24, 4}};
constexpr uint32_t kRows = 5;

/// The matrix in one page, as resident weights are.
struct StoredMatrix {
  StoredMatrix(Random &random, const Case &c, WeightKind kind)
      : logical(randomMatrix(random, {c.heads * c.outputs, c.cols}, {kind, 0, 0, false})),
        stored(logical, 22, 0, random) {}

  LogicalMatrix logical;
  PagedMatrix stored;
};

FloatRows inputOf(Random &random, const Case &c) {
  FloatRows x(kRows, c.heads * (c.cols + c.kept));
  x.fill(random, -1, 1);
  return x;
}

/// `pieces`: runs of panels that are computed one after the other.
void run(const KernelTable &kernels, const Case &c, const WeightView &w, const FloatRows &x,
         uint32_t pieces, FloatRows &y) {
  const HeadProducts products = {kernels,    w,        c.heads,    c.kept, x.data(),
                                 x.stride(), y.data(), y.stride(), kRows};
  products.keep();
  if (!w.layout.isPanels)
    return products.multiplyRows();
  for (uint32_t piece = 0; piece < pieces; ++piece)
    products.multiply(w.layout.panels * piece / pieces, w.layout.panels * (piece + 1) / pieces);
}

} // namespace

TEST_CASE("each head's elements are kept, and its others multiplied by its own matrix") {
  Random random(1);
  for (const Case &c : kCases) {
    CAPTURE(c.outputs);
    const StoredMatrix matrix(random, c, WeightKind::kBF16);
    const FloatRows x = inputOf(random, c);
    FloatRows y(kRows, c.heads * (c.outputs + c.kept));
    run(referenceKernels(), c, matrix.stored.view(), x, 1, y);
    CHECK(y.isGuardIntact());
    for (uint32_t row = 0; row < kRows; ++row)
      for (uint32_t head = 0; head < c.heads; ++head) {
        const float *in = &x.at(row, head * (c.cols + c.kept));
        const float *out = &y.at(row, head * (c.outputs + c.kept));
        for (uint32_t i = 0; i < c.kept; ++i)
          CHECK(out[i] == in[c.cols + i]);
        for (uint32_t o = 0; o < c.outputs; ++o) {
          double sum = 0, magnitude = 0;
          for (uint32_t i = 0; i < c.cols; ++i) {
            const double product =
                double(in[i]) * matrix.logical.values[(head * c.outputs + o) * c.cols + i];
            sum += product;
            magnitude += std::fabs(product);
          }
          // Each of cols fmas rounds once, by at most 2^-24 of what was summed.
          CHECK(std::fabs(out[c.kept + o] - sum) <= c.cols * 0x1p-24 * magnitude);
        }
      }
  }
}

TEST_CASE("products per head have the same bytes in every version and however they are cut") {
  Random random(2);
  for (const Case &c : kCases)
    for (WeightKind kind : {WeightKind::kF32, WeightKind::kF16, WeightKind::kBF16}) {
      CAPTURE(c.outputs);
      const StoredMatrix matrix(random, c, kind);
      const FloatRows x = inputOf(random, c);
      FloatRows expected(kRows, c.heads * (c.outputs + c.kept));
      run(referenceKernels(), c, matrix.stored.view(), x, 1, expected);
      forEachVersion([&](const KernelTable &kernels) {
        for (uint32_t pieces : {1, 2, 3, 100}) {
          FloatRows y(kRows, c.heads * (c.outputs + c.kept));
          run(kernels, c, matrix.stored.view(), x, pieces, y);
          CHECK(y.isSameAs(expected));
          CHECK(y.isGuardIntact());
        }
      });
    }
}
