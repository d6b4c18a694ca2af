// Products with matrices of ggml's blocks: those of the same values in f32, to the bit.
// tests/unit/import has the values themselves.
#include "tests/unit/kernels/TestMatrices.h"

using namespace moert;
using namespace moert::test;

static constexpr WeightKind kKinds[] = {WeightKind::kQ4x0, WeightKind::kQ4x1,  WeightKind::kQ5x0,
                                        WeightKind::kQ5x1, WeightKind::kQ8x0,  WeightKind::kQ2K,
                                        WeightKind::kQ3K,  WeightKind::kQ4K,   WeightKind::kQ5K,
                                        WeightKind::kQ6K,  WeightKind::kIq4Nl, WeightKind::kIq4Xs};

static FloatRows product(const KernelTable &kernels, const PagedMatrix &w, const FloatRows &x) {
  const WeightView view = w.view();
  FloatRows y(x.rows, view.shape.rows);
  kernels.linearFloat(view, x.data(), x.stride(), x.rows, y.data(), y.stride(), 0,
                      view.layout.panels);
  return y;
}

static FloatRows someRows(Random &random, uint32_t rows, uint32_t cols) {
  FloatRows x(rows, cols);
  x.fill(random, -2, 2);
  for (uint32_t row = 0; row < rows; ++row)
    x.at(row, random.below(cols)) = 0x1.8p-140f;
  return x;
}

TEST_CASE("blocks give the bytes of the same values in f32 for every kind, shape and page size") {
  // Pages that end inside of blocks, outputs that leave lanes of a panel, one row and several.
  Random random(21);
  for (WeightKind kind : kKinds)
    for (uint32_t rows : {16u, 19u, 96u})
      for (uint32_t blocks : {1u, 3u}) {
        CAPTURE(nameOf(kind));
        const MatrixShape shape = {rows, blocks * blockOf(kind).elements};
        const LogicalMatrix m = randomBlocks(random, shape, kind);
        const WeightFormat f32 = floatFormat(WeightKind::kF32);
        PagedMatrix wide({shape, f32, layoutOf(shape, f32).value(), m.values, {}, {}, {}, {}, {}},
                         14, kRegionAlignment, random);
        for (uint32_t pageShift : {12u, 13u, 16u}) {
          PagedMatrix stored(m, pageShift, random.below(64) * kRegionAlignment, random);
          for (uint32_t tokens : {1u, 2u, 3u, 13u}) {
            const FloatRows x = someRows(random, tokens, shape.cols);
            const FloatRows expected = product(referenceKernels(), wide, x);
            auto check = [&](const KernelTable &kernels) {
              const FloatRows y = product(kernels, stored, x);
              CHECK(y.isSameAs(expected));
              CHECK(y.isGuardIntact());
            };
            check(referenceKernels());
            forEachVersion(check);
          }
        }
      }
}

TEST_CASE("blocks give the same bytes panel by panel") {
  Random random(22);
  constexpr uint32_t kRows = 9, kOutputs = 112;
  PagedMatrix stored(randomBlocks(random, {kOutputs, 512}, WeightKind::kQ6K), 12, kRegionAlignment,
                     random);
  const FloatRows x = someRows(random, kRows, 512);
  const FloatRows all = product(referenceKernels(), stored, x);
  forEachVersion([&](const KernelTable &kernels) {
    for (uint32_t panel = 0; panel < kOutputs / kPanelRows; ++panel) {
      FloatRows y(kRows, kOutputs);
      const uint32_t end = std::min(panel + 5, kOutputs / kPanelRows);
      kernels.linearFloat(stored.view(), x.data(), x.stride(), kRows, y.data(), y.stride(), panel,
                          end);
      CHECK(y.isUntouchedOutside(panel * kPanelRows, end * kPanelRows));
      for (uint32_t row = 0; row < kRows; ++row)
        CHECK(std::memcmp(&y.at(row, panel * kPanelRows), &all.at(row, panel * kPanelRows),
                          (end - panel) * kPanelRows * sizeof(float)) == 0);
    }
  });
}
