// Products of stored matrices with rows of activations. One launch computes several matrices, of
// which each may have rows of its own: joined products, or the experts of a layer.
#pragma once

#include "runtime/exec/cuda/StoredWeights.h"

#include <array>

namespace moert::device {

/// Rows that a block multiplies with a panel: each of its weights is decoded once for all of them.
constexpr uint32_t kTileRows = 4;

/// y[rows] = m * x + bias for rows [firstRow, firstRow + rows) of x. y is that of the first of
/// them.
struct Product {
  Matrix m;
  const float *bias = nullptr;
  float *y = nullptr;
  uint64_t yStride = 0;
  uint32_t firstRow = 0, rows = 0;

  MOERT_DEVICE uint32_t tiles() const { return (rows + kTileRows - 1) / kTileRows; }
  MOERT_DEVICE void store(uint32_t row, uint32_t output, float result) const {
    y[row * yStride + output] = bias ? result + bias[output] : result;
  }
};

/// Products in one launch, at most: with their inputs they have kMostKernelBytes.
constexpr uint32_t kMostProducts = 14;

/// The products of a launch, which have one kind of inputs and of layout.
struct ProductList {
  std::array<Product, kMostProducts> products = {};
  uint32_t count = 0;

  /// A tile of rows and a panel, or an output, of a product.
  struct Place {
    const Product &product;
    uint32_t panel, firstRow, rows;
  };
  template <typename PanelsOf> MOERT_DEVICE uint32_t blocks(PanelsOf panelsOf) const {
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < count; ++i)
      blocks += panelsOf(products[i]) * products[i].tiles();
    return blocks;
  }
  template <typename PanelsOf> MOERT_DEVICE Place placeOf(uint32_t block, PanelsOf panelsOf) const {
    uint32_t i = 0;
    for (uint32_t own; block >= (own = panelsOf(products[i]) * products[i].tiles()); ++i)
      block -= own;
    const Product &product = products[i];
    const uint32_t first = block / panelsOf(product) * kTileRows;
    const uint32_t rows = product.rows - first < kTileRows ? product.rows - first : kTileRows;
    return {product, block % panelsOf(product), first, rows};
  }
};

MOERT_DEVICE inline uint32_t panelsOf(const Product &product) {
  return product.m.w.layout.panels;
}
MOERT_DEVICE inline uint32_t outputsOf(const Product &product) {
  return product.m.w.shape.rows;
}

/// Products of quantized matrices (KernelTable::linearQuantized). A thread has one group of one
/// output; the groups' products are then added by one thread per row and output.
struct QuantizedProducts {
  static constexpr uint32_t kGroups = 32; // Computed before their products are added.
  struct Shared {
    float sums[kTileRows][kPanelRows];
    float products[kTileRows][kGroups][kPanelRows], scales[kTileRows][kGroups][kPanelRows];
  };

  ProductList list;
  QuantizedRows x;

  uint32_t blocks() const { return list.blocks(panelsOf); }

  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &shared) const {
    const ProductList::Place place = list.placeOf(threads.block, panelsOf);
    const WeightView &w = place.product.m.w;
    const uint32_t firstOutput = place.panel * kPanelRows;
    const uint64_t firstRow = place.product.firstRow + place.firstRow;
    const float *const scales = x.scales + firstRow * x.groupsStride;
    const uint32_t groups = x.cols / x.group;
    const auto forSums = [&](auto function) {
      threads.forEach(place.rows * kPanelRows, [&](uint32_t i) {
        function(i / kPanelRows, i % kPanelRows, shared.sums[i / kPanelRows][i % kPanelRows]);
      });
    };
    forSums([](uint32_t, uint32_t, float &sum) { sum = 0; });
    for (uint32_t first = 0; first < groups; first += kGroups) {
      const uint32_t count = groups - first < kGroups ? groups - first : kGroups;
      threads.forEach(count * kPanelRows, [&](uint32_t i) {
        multiplyGroup(place, firstOutput + i % kPanelRows, first + i / kPanelRows, shared);
      });
      forSums([&](uint32_t row, uint32_t lane, float &sum) {
        for (uint32_t g = 0; g < count; ++g)
          sum = std::fma(shared.products[row][g][lane], shared.scales[row][g][lane], sum);
      });
    }
    const int32_t *const sums = x.sums + firstRow * x.groupsStride;
    forSums([&](uint32_t row, uint32_t lane, float &sum) {
      const uint32_t output = firstOutput + lane;
      for (uint32_t g = 0; g < groups && w.format.hasOffsets; ++g)
        sum = std::fma(static_cast<float>(sums[row * x.groupsStride + g]) *
                           scales[row * x.groupsStride + g],
                       offsetOf(w, output, g * x.group), sum);
      if (output < w.shape.rows)
        place.product.store(place.firstRow + row, output, sum);
    });
  }

private:
  MOERT_DEVICE void multiplyGroup(const ProductList::Place &place, uint32_t output, uint32_t group,
                                  Shared &shared) const {
    const Matrix &m = place.product.m;
    const CodeRule rule = codeRuleOf(m.w);
    const uint64_t firstRow = place.product.firstRow + place.firstRow;
    const int8_t *const codes = x.codes + firstRow * x.codesStride + group * x.group;
    int32_t products[kTileRows] = {};
    for (uint32_t i = 0; i < x.group; i += 4) {
      const uint32_t steps = steppedCodes(m, rule, output, (group * x.group + i) / 4);
      for (uint32_t row = 0; row < place.rows; ++row) {
        const auto *const four =
            reinterpret_cast<const uint32_t *>(codes + row * x.codesStride + i);
        products[row] = addProducts(steps, *four, products[row]);
      }
    }
    const float step = stepOf(m.w, output, group * x.group);
    const uint32_t lane = output % kPanelRows, slot = group % kGroups;
    for (uint32_t row = 0; row < place.rows; ++row) {
      const uint64_t at = (firstRow + row) * x.groupsStride + group;
      const int32_t product = rule.factor * products[row] + rule.offset * x.sums[at];
      shared.products[row][slot][lane] = static_cast<float>(product);
      shared.scales[row][slot][lane] = step * x.scales[at];
    }
  }
};

/// Products of float matrices in panel layout (KernelTable::linearFloat). A thread has one sum
/// block of one output; the blocks' sums are then added by one thread per row and output.
struct FloatProducts {
  static constexpr uint32_t kBlocks = 32; // Computed before their sums are added.
  struct Shared {
    float sums[kTileRows][kPanelRows];
    float blocks[kTileRows][kBlocks][kPanelRows];
  };

  ProductList list;
  const float *x;
  uint64_t xStride;

  uint32_t blocks() const { return list.blocks(panelsOf); }

  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &shared) const {
    const ProductList::Place place = list.placeOf(threads.block, panelsOf);
    const WeightView &w = place.product.m.w;
    const uint32_t firstOutput = place.panel * kPanelRows;
    const uint32_t sumBlocks = (w.shape.cols + kSumBlock - 1) / kSumBlock;
    const uint32_t sums = place.rows * kPanelRows;
    threads.forEach(sums, [&](uint32_t i) { shared.sums[i / kPanelRows][i % kPanelRows] = 0; });
    for (uint32_t first = 0; first < sumBlocks; first += kBlocks) {
      const uint32_t count = sumBlocks - first < kBlocks ? sumBlocks - first : kBlocks;
      threads.forEach(count * kPanelRows, [&](uint32_t i) {
        multiplyBlock(place, firstOutput + i % kPanelRows, first + i / kPanelRows, shared);
      });
      threads.forEach(sums, [&](uint32_t i) {
        const uint32_t row = i / kPanelRows, lane = i % kPanelRows;
        for (uint32_t block = 0; block < count; ++block)
          shared.sums[row][lane] = shared.sums[row][lane] + shared.blocks[row][block][lane];
      });
    }
    threads.forEach(sums, [&](uint32_t i) {
      const uint32_t row = i / kPanelRows, output = firstOutput + i % kPanelRows;
      if (output < w.shape.rows)
        place.product.store(place.firstRow + row, output, shared.sums[row][i % kPanelRows]);
    });
  }

private:
  MOERT_DEVICE void multiplyBlock(const ProductList::Place &place, uint32_t output, uint32_t block,
                                  Shared &shared) const {
    const WeightView &w = place.product.m.w;
    const uint32_t begin = block * kSumBlock;
    const uint32_t end = w.shape.cols - begin < kSumBlock ? w.shape.cols : begin + kSumBlock;
    const float *const rows = x + (place.product.firstRow + place.firstRow) * xStride;
    float sums[kTileRows] = {};
    for (uint32_t i = begin; i < end; ++i) {
      const float value = panelValue(w, output, i);
      for (uint32_t row = 0; row < place.rows; ++row)
        sums[row] = std::fma(value, rows[row * xStride + i], sums[row]);
    }
    for (uint32_t row = 0; row < place.rows; ++row)
      shared.blocks[row][block % kBlocks][output % kPanelRows] = sums[row];
  }
};

/// Products of float matrices in row layout (KernelTable::linearRows). A thread has one partial
/// sum; the block has one output.
struct RowProducts {
  struct Shared {
    float lanes[kTileRows][kPanelRows];
  };

  ProductList list;
  const float *x;
  uint64_t xStride;

  uint32_t blocks() const { return list.blocks(outputsOf); }

  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &shared) const {
    const ProductList::Place place = list.placeOf(threads.block, outputsOf);
    const WeightView &w = place.product.m.w;
    const uint32_t output = place.panel;
    const float *const rows = x + (place.product.firstRow + place.firstRow) * xStride;
    threads.forEach(place.rows * kPanelRows, [&](uint32_t i) {
      const float *const row = rows + i / kPanelRows * xStride;
      float sum = 0;
      for (uint32_t col = i % kPanelRows; col < w.shape.cols; col += kPanelRows)
        sum = std::fma(storedFloat(w, uint64_t(output) * w.shape.cols + col), row[col], sum);
      shared.lanes[i / kPanelRows][i % kPanelRows] = sum;
    });
    threads.forEach(place.rows, [&](uint32_t row) {
      place.product.store(place.firstRow + row, output, treeOf(shared.lanes[row]));
    });
  }
};

} // namespace moert::device
