// Attention over a scattered cache: every version against the reference, the reference against
// float64.
#include "runtime/base/HalfFloat.h"
#include "tests/unit/kernels/TestMatrices.h"

#include <algorithm>

using namespace moert;
using namespace moert::test;

namespace {

/// The order of a cache's blocks: all heads of a block together and the blocks shuffled, or all
/// blocks of a head contiguous.
enum class Order { kByBlock, kByHead };

/// A cache of random keys and values.
struct RandomCache {
  RandomCache(Random &random, uint32_t tokens, uint32_t kvHeads, uint32_t keyDim, uint32_t valueDim,
              Order order = Order::kByBlock, KvKind kind = KvKind::kF32)
      : keys(fill(random, order, tokens, kvHeads, keyDim, kind, keyBlocks)),
        values(fill(random, order, tokens, kvHeads, valueDim, kind, valueBlocks)),
        view{keyBlocks.data(),
             valueBlocks.data(),
             kvHeads,
             keyDim,
             valueDim,
             order == Order::kByHead ? roundUp(tokens, kKvBlockTokens) : kKvBlockTokens,
             false,
             kind} {}

  /// Rows of f32.
  const float *key(uint32_t token, uint32_t head) const {
    return row(keyBlocks, token, head, view.keyStep());
  }
  const float *value(uint32_t token, uint32_t head) const {
    return row(valueBlocks, token, head, view.valueStep());
  }

  std::vector<const std::byte *> keyBlocks, valueBlocks;
  std::vector<std::byte> keys, values;
  KvView view;

private:
  const float *row(const std::vector<const std::byte *> &blocks, uint32_t token, uint32_t head,
                   uint64_t step) const {
    return reinterpret_cast<const float *>(blocks[token / kKvBlockTokens] +
                                           (head * view.headRows + token % kKvBlockTokens) * step);
  }

  static std::vector<std::byte> fill(Random &random, Order order, uint32_t tokens, uint32_t heads,
                                     uint32_t dim, KvKind kind,
                                     std::vector<const std::byte *> &blocks) {
    const uint64_t count = divideUp(tokens, kKvBlockTokens), step = kvRowBytes(kind, dim);
    std::vector<std::byte> all(count * kKvBlockTokens * heads * step);
    std::vector<float> row(dim);
    for (uint64_t at = 0; at < all.size(); at += step) {
      for (float &x : row)
        x = random.between(-2, 2);
      referenceKernels().storeKvRow(kind, row.data(), dim, all.data() + at);
    }
    for (uint64_t i = 0; i < count; ++i)
      blocks.push_back(all.data() +
                       i * kKvBlockTokens * step * (order == Order::kByBlock ? heads : 1));
    for (uint64_t i = count; order == Order::kByBlock && i > 1; --i)
      std::swap(blocks[i - 1], blocks[random.below(static_cast<uint32_t>(i))]);
    return all;
  }
};

/// The numbers of a narrow cache's keys, or values, as f32.
struct WideRows {
  WideRows(KvKind kind, uint32_t dim, const std::vector<std::byte> &rows,
           const std::vector<const std::byte *> &narrowBlocks) {
    const uint64_t step = kvRowBytes(kind, dim);
    for (uint64_t at = 0; at < rows.size(); at += step)
      for (uint32_t i = 0; i < dim; ++i)
        numbers.push_back(numberOf(kind, dim, rows.data() + at, i));
    for (const std::byte *block : narrowBlocks) {
      const auto row = static_cast<uint64_t>(block - rows.data()) / step;
      blocks.push_back(reinterpret_cast<const std::byte *>(numbers.data() + row * dim));
    }
  }

  std::vector<float> numbers;
  std::vector<const std::byte *> blocks;

private:
  static float numberOf(KvKind kind, uint32_t dim, const std::byte *row, uint32_t i) {
    uint16_t half;
    std::memcpy(&half, row + 2 * i, kind == KvKind::kF16 ? sizeof half : 0);
    if (kind == KvKind::kF16)
      return f16ToF32(half);
    float scale;
    std::memcpy(&scale, row + dim + i / 32 * sizeof scale, sizeof scale);
    return scale * static_cast<float>(static_cast<int8_t>(row[i]));
  }
};

struct Case {
  uint32_t heads, kvHeads, keyDim, valueDim, begin, end;
};

// Heads with keys of their own and shared by up to eight, dimensions odd and larger than the
// registers, windows that start anywhere, one key, a last key just after a sum block.
constexpr Case kCases[] = {
    {1, 1, 8, 8, 0, 1},       {4, 2, 32, 32, 0, 37},     {8, 2, 64, 64, 0, 256},
    {2, 1, 128, 128, 0, 257}, {4, 4, 80, 80, 3, 300},    {2, 2, 192, 128, 255, 530},
    {2, 1, 17, 35, 100, 101}, {6, 3, 96, 176, 250, 260}, {2, 1, 64, 300, 511, 777},
    {2, 2, 16, 3, 17, 1030},  {3, 1, 20, 50, 30, 290},   {10, 2, 32, 32, 250, 600},
    {6, 1, 16, 70, 1, 40},    {14, 2, 24, 20, 7, 100},   {8, 1, 40, 130, 0, 33},
};

uint64_t scratchFloats(const Case &c, KvKind kind = KvKind::kF32) {
  return kAttendHeads * roundUp(c.end - c.begin, 16) + rowScratchFloats(kind, c.keyDim, c.valueDim);
}

void run(const KernelTable &kernels, const Case &c, const FloatRows &query, const KvView &kv,
         FloatRows &out, const float *sinks = nullptr) {
  FloatRows scratch(1, static_cast<uint32_t>(scratchFloats(c, kv.kind)));
  kernels.attend(query.data(), kv, c.heads, 0, c.heads, c.begin, c.end, 0.3f, sinks, out.data(),
                 scratch.data());
  CHECK(out.isGuardIntact());
  CHECK(scratch.isGuardIntact());
}

/// Every version gives the reference's bytes.
void checkVersions(const Case &c, const FloatRows &query, const KvView &kv,
                   const float *sinks = nullptr) {
  FloatRows expected(1, c.heads * c.valueDim);
  run(referenceKernels(), c, query, kv, expected, sinks);
  forEachVersion([&](const KernelTable &kernels) {
    FloatRows out(1, c.heads * c.valueDim);
    run(kernels, c, query, kv, out, sinks);
    CHECK(out.isSameAs(expected));
  });
}

/// A sink per head: below, between and above the scores.
std::vector<float> randomSinks(Random &random, uint32_t heads) {
  std::vector<float> sinks(heads);
  for (float &sink : sinks)
    sink = random.between(-30, 30);
  return sinks;
}

} // namespace

TEST_CASE("attend gives the reference's bytes for every shape and window") {
  Random random(1);
  for (const Case &c : kCases)
    for (Order order : {Order::kByBlock, Order::kByHead}) {
      CAPTURE(c.keyDim);
      CAPTURE(c.end);
      RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim, order);
      FloatRows query(1, c.heads * c.keyDim);
      query.fill(random, -1, 1);
      checkVersions(c, query, cache.view);
    }
}

/// Attention over a narrow cache has the bytes of the same numbers in f32, in every version.
static void checkNarrow(const Case &c, KvKind kind, bool areValuesInKeys, Random &random) {
  CAPTURE(int(kind));
  CAPTURE(c.keyDim);
  CAPTURE(c.end);
  RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim, Order::kByBlock, kind);
  FloatRows query(1, c.heads * c.keyDim), expected(1, c.heads * c.valueDim),
      narrow(1, c.heads * c.valueDim);
  query.fill(random, -1, 1);
  cache.view.valuesInKeys = areValuesInKeys;
  const WideRows keys(kind, c.keyDim, cache.keys, cache.keyBlocks),
      values(kind, c.valueDim, cache.values, cache.valueBlocks);
  KvView wide = cache.view;
  wide.keyBlocks = keys.blocks.data();
  wide.valueBlocks = values.blocks.data();
  wide.kind = KvKind::kF32;
  run(referenceKernels(), c, query, wide, expected);
  run(referenceKernels(), c, query, cache.view, narrow);
  CHECK(narrow.isSameAs(expected));
  checkVersions(c, query, cache.view);
}

TEST_CASE("attend over chosen tokens has the bytes of a cache of these alone, in every version") {
  Random random(11);
  for (const KvKind kind : {KvKind::kF32, KvKind::kF16, KvKind::kInt8})
    for (const uint32_t tokens : {1u, 40u, 700u}) {
      CAPTURE(int(kind));
      CAPTURE(tokens);
      RandomCache cache(random, tokens, 1, 48, 20, Order::kByHead, kind);
      std::vector<int32_t> chosen;
      for (uint32_t token = 0; token < tokens; ++token) // Runs of 1 to some.
        if (token + 1 == tokens || token % 7 < 3 || (token > 90 && token < 200))
          chosen.push_back(static_cast<int32_t>(token));
      // The same rows one after the other.
      const auto count = static_cast<uint32_t>(chosen.size());
      RandomCache packed(random, count, 1, 48, 20, Order::kByHead, kind);
      for (uint32_t i = 0; i < count; ++i) {
        const auto from = static_cast<uint64_t>(chosen[i]);
        std::copy_n(&cache.keys[from * cache.view.keyStep()], cache.view.keyStep(),
                    &packed.keys[i * cache.view.keyStep()]);
        std::copy_n(&cache.values[from * cache.view.valueStep()], cache.view.valueStep(),
                    &packed.values[i * cache.view.valueStep()]);
      }
      const Case c = {5, 1, 48, 20, 0, count};
      FloatRows query(1, c.heads * c.keyDim), expected(1, c.heads * c.valueDim),
          out(1, c.heads * c.valueDim);
      query.fill(random, -1, 1);
      run(referenceKernels(), c, query, packed.view, expected);
      cache.view.chosen = chosen.data();
      run(referenceKernels(), c, query, cache.view, out);
      CHECK(out.isSameAs(expected));
      checkVersions(c, query, cache.view);
    }
}

/// scoreIndex() of a version, for the keys [begin, end).
static FloatRows indexScores(const KernelTable &kernels, const KvView &kv, uint32_t heads,
                             uint32_t begin, uint32_t end, const FloatRows &query,
                             const FloatRows &weights) {
  FloatRows out(1, end - begin),
      scratch(1, static_cast<uint32_t>((kAttendHeads - 1) * roundUp(end - begin, 16) +
                                       rowScratchFloats(kv.kind, kv.keyDim, 0)));
  kernels.scoreIndex(query.data(), kv, weights.data(), heads, begin, end, out.data(),
                     scratch.data());
  CHECK(out.isGuardIntact());
  CHECK(scratch.isGuardIntact());
  return out;
}

TEST_CASE("index scores are sums of weighted products that are not negative, in every version") {
  Random random(12);
  for (const KvKind kind : {KvKind::kF32, KvKind::kF16, KvKind::kInt8})
    for (const uint32_t heads : {1u, 3u, 6u, 32u})
      for (const uint32_t begin : {0u, 32u}) {
        CAPTURE(int(kind));
        CAPTURE(heads);
        const uint32_t dim = heads == 3 ? 19 : 64, end = begin + 75;
        RandomCache cache(random, end, 1, dim, dim, Order::kByHead, kind);
        FloatRows query(1, heads * dim), weights(1, heads);
        query.fill(random, -1, 1);
        weights.fill(random, -1, 1);
        const FloatRows expected =
            indexScores(referenceKernels(), cache.view, heads, begin, end, query, weights);
        forEachVersion([&](const KernelTable &kernels) {
          CHECK(indexScores(kernels, cache.view, heads, begin, end, query, weights)
                    .isSameAs(expected));
        });
        for (uint32_t j = begin; j < end && kind == KvKind::kF32; ++j) {
          double sum = 0;
          for (uint32_t h = 0; h < heads; ++h) {
            double dot = 0;
            for (uint32_t i = 0; i < dim; ++i)
              dot += double(query.data()[h * dim + i]) * cache.key(j, 0)[i];
            sum += double(weights.data()[h]) * std::max(dot, 0.0);
          }
          CHECK(std::fabs(expected.data()[j - begin] - sum) < 1e-4);
        }
      }
}

TEST_CASE("attend over f16 and int8 gives the bytes of the same numbers in f32") {
  Random random(8);
  for (const Case &c : kCases) {
    checkNarrow(c, KvKind::kF16, false, random);
    checkNarrow(c, KvKind::kInt8, false, random);
    if (c.valueDim <= c.keyDim)
      checkNarrow(c, KvKind::kF16, true, random);
  }
}

TEST_CASE("a row of int8 has the codes and scales of activations in groups of 32") {
  Random random(10);
  for (float special : {1.0f, 0.0f, 3e38f, HUGE_VALF, std::nanf("")})
    for (uint32_t count : {1u, 16u, 31u, 32u, 33u, 80u, 128u}) {
      std::vector<float> x(count);
      for (float &value : x)
        value = special == 0 ? 0 : random.between(-3, 3);
      x[count / 2] = special;
      std::vector<std::byte> expected(kvRowBytes(KvKind::kInt8, count));
      referenceKernels().storeKvRow(KvKind::kInt8, x.data(), count, expected.data());
      float scale, largest = 0;
      std::memcpy(&scale, expected.data() + count, sizeof scale);
      for (uint32_t i = 0; i < count && i < 32; ++i)
        largest = std::isnan(x[i]) || std::fabs(x[i]) > largest ? std::fabs(x[i]) : largest;
      CHECK((std::isnan(largest) ? std::isnan(scale) : scale == largest / 127));
      forEachVersion([&](const KernelTable &kernels) {
        std::vector<std::byte> row(expected.size() + 1, std::byte(7));
        kernels.storeKvRow(KvKind::kInt8, x.data(), count, row.data());
        CHECK(row.back() == std::byte(7));
        row.pop_back();
        CHECK(row == expected);
      });
    }
}

TEST_CASE("a row of the cache is rounded to the nearest f16 within its range, in every version") {
  // Ties, the largest f16 and beyond, the smallest and below, in rows of any length.
  std::vector<float> x = {0,          -0.0f,        1,        1.00048828125f, 1.00146484375f,
                          65504,      65519.99f,    65520,    -65536,         3e38f,
                          -HUGE_VALF, HUGE_VALF,    0x1p-24f, 0x1p-25f,       -0x1.8p-25f,
                          0x1.8p-24f, 0x1.ffcp-15f, 1e-30f,   -2.5f,          0.1f};
  Random random(9);
  while (x.size() < 67)
    x.push_back(random.between(-100, 100));
  const auto check = [&](const KernelTable &kernels) {
    for (uint32_t count = 1; count <= x.size(); ++count) {
      std::vector<uint16_t> row(count + 1, 0x1234);
      kernels.storeKvRow(KvKind::kF16, x.data(), count, reinterpret_cast<std::byte *>(row.data()));
      for (uint32_t i = 0; i < count; ++i)
        CHECK(row[i] == f32ToF16(std::clamp(x[i], -65504.0f, 65504.0f)));
      CHECK(row[count] == 0x1234);
    }
    const float nan = std::nanf("");
    uint16_t stored = 0;
    kernels.storeKvRow(KvKind::kF16, &nan, 1, reinterpret_cast<std::byte *>(&stored));
    CHECK(std::isnan(f16ToF32(stored)));
  };
  check(referenceKernels());
  forEachVersion(check);
}

TEST_CASE("attend with sinks gives the reference's bytes") {
  Random random(6);
  for (const Case &c : kCases) {
    CAPTURE(c.keyDim);
    CAPTURE(c.end);
    RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim);
    FloatRows query(1, c.heads * c.keyDim);
    query.fill(random, -1, 1);
    checkVersions(c, query, cache.view, randomSinks(random, c.heads).data());
  }
  for (float special : {std::nanf(""), HUGE_VALF, -HUGE_VALF, 3e38f, -3e38f}) {
    const Case c = {3, 1, 20, 20, 0, 50};
    RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim);
    FloatRows query(1, c.heads * c.keyDim);
    query.fill(random, -1, 1);
    const float sinks[] = {0.5f, special, -1};
    checkVersions(c, query, cache.view, sinks);
  }
}

TEST_CASE("biases are added to the scores of their heads, also of a part of the heads") {
  Random random(21);
  for (const Case &c : kCases) {
    CAPTURE(c.keyDim);
    CAPTURE(c.end);
    RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim, Order::kByHead);
    FloatRows query(1, c.heads * c.keyDim);
    query.fill(random, -1, 1);
    const uint64_t stride = roundUp(c.end - c.begin, 16);
    std::vector<float> biases(c.heads * stride);
    for (float &bias : biases)
      bias = random.between(-9, 9);
    KvView view = cache.view;
    view.biasStride = stride;
    view.biases = biases.data();
    FloatRows plain(1, c.heads * c.valueDim), expected(1, c.heads * c.valueDim);
    run(referenceKernels(), c, query, cache.view, plain);
    run(referenceKernels(), c, query, view, expected);
    CHECK(plain.isSameAs(expected) == (c.end - c.begin == 1)); // One key has all the weight.
    checkVersions(c, query, view);
    const uint32_t first = c.heads / c.kvHeads * (c.kvHeads / 2); // The first of a key head.
    view.biases = biases.data() + first * stride;
    forEachVersion([&](const KernelTable &kernels) {
      FloatRows scratch(1, static_cast<uint32_t>(scratchFloats(c))), out(1, c.heads * c.valueDim);
      kernels.attend(query.data(), view, c.heads, first, c.heads, c.begin, c.end, 0.3f, nullptr,
                     out.data(), scratch.data());
      for (uint32_t i = first * c.valueDim; i < c.heads * c.valueDim; ++i)
        CHECK(out.at(0, i) == expected.at(0, i));
    });
  }
}

TEST_CASE("each head of a part of the heads has its own sink") {
  Random random(7);
  const Case c = {12, 2, 24, 40, 5, 70};
  RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim);
  FloatRows query(1, c.heads * c.keyDim), all(1, c.heads * c.valueDim);
  query.fill(random, -1, 1);
  const std::vector<float> sinks = randomSinks(random, c.heads);
  run(referenceKernels(), c, query, cache.view, all, sinks.data());
  auto check = [&](const KernelTable &kernels) {
    for (uint32_t head = 0; head < c.heads; ++head) {
      FloatRows out(1, c.heads * c.valueDim);
      FloatRows scratch(1, static_cast<uint32_t>(scratchFloats(c)));
      kernels.attend(query.data(), cache.view, c.heads, head, head + 1, c.begin, c.end, 0.3f,
                     sinks.data(), out.data(), scratch.data());
      for (uint32_t i = head * c.valueDim; i < (head + 1) * c.valueDim; ++i)
        CHECK(isSame(out.at(0, i), all.at(0, i)));
    }
  };
  check(referenceKernels());
  forEachVersion(check);
}

TEST_CASE("values kept in keys are the keys' last elements, with the same bytes") {
  Random random(5);
  for (const Case &c : {Case{8, 1, 72, 64, 0, 300}, Case{6, 2, 40, 24, 7, 100},
                        Case{5, 1, 40, 33, 250, 260}, Case{2, 1, 16, 16, 0, 40}}) {
    RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.keyDim, Order::kByHead);
    FloatRows query(1, c.heads * c.keyDim), expected(1, c.heads * c.valueDim);
    query.fill(random, -1, 1);
    // A cache whose values lie apart and are copies.
    std::vector<float> copies;
    for (uint32_t head = 0; head < c.kvHeads; ++head)
      for (uint32_t row = 0; row < cache.view.headRows; ++row) {
        const float *key = cache.key(row, head);
        copies.insert(copies.end(), key + c.keyDim - c.valueDim, key + c.keyDim);
      }
    std::vector<const std::byte *> blocks;
    for (uint32_t block = 0; block < cache.keyBlocks.size(); ++block)
      blocks.push_back(reinterpret_cast<const std::byte *>(
          copies.data() + uint64_t(block) * kKvBlockTokens * c.valueDim));
    KvView apart = cache.view, inKeys = cache.view;
    apart.valueBlocks = blocks.data();
    apart.valueDim = inKeys.valueDim = c.valueDim;
    inKeys.valueBlocks = nullptr;
    inKeys.valuesInKeys = true;
    run(referenceKernels(), c, query, apart, expected);
    FloatRows reference(1, c.heads * c.valueDim);
    run(referenceKernels(), c, query, inKeys, reference);
    CHECK(reference.isSameAs(expected));
    checkVersions(c, query, inKeys);
  }
}

TEST_CASE("attend computes its heads and writes no others, however a group of them is cut") {
  Random random(2);
  const Case c = {12, 2, 24, 40, 5, 70};
  RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim);
  FloatRows query(1, c.heads * c.keyDim), all(1, c.heads * c.valueDim);
  query.fill(random, -1, 1);
  run(referenceKernels(), c, query, cache.view, all);
  auto check = [&](const KernelTable &kernels) {
    for (uint32_t begin = 0; begin < c.heads; ++begin)
      for (uint32_t end = begin; end <= c.heads; ++end) {
        FloatRows out(1, c.heads * c.valueDim);
        FloatRows scratch(1, static_cast<uint32_t>(scratchFloats(c)));
        kernels.attend(query.data(), cache.view, c.heads, begin, end, c.begin, c.end, 0.3f, nullptr,
                       out.data(), scratch.data());
        CHECK(scratch.isGuardIntact());
        CHECK(out.isUntouchedOutside(begin * c.valueDim, end * c.valueDim));
        for (uint32_t i = begin * c.valueDim; i < end * c.valueDim; ++i)
          CHECK(isSame(out.at(0, i), all.at(0, i)));
      }
  };
  check(referenceKernels());
  forEachVersion(check);
}

TEST_CASE("attend agrees with the reference on scores that are infinite or NaN") {
  Random random(3);
  for (float special : {std::nanf(""), HUGE_VALF, -HUGE_VALF, 3e38f, -3e38f}) {
    const Case c = {2, 1, 20, 20, 0, 50};
    RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim);
    const_cast<float *>(cache.key(33, 0))[18] = special;
    FloatRows query(1, c.heads * c.keyDim);
    query.fill(random, 1, 2);
    checkVersions(c, query, cache.view);
  }
}

TEST_CASE("the reference of attend is within float rounding of float64") {
  // Scores up to 0.3 * keyDim * 2 have errors of about keyDim roundings of 2^-24 of that, which the
  // exponential makes relative; the sums add up to a block's 256 roundings. 2e-4 of the values'
  // range of 2 is five times the largest error of these cases.
  Random random(4);
  for (const Case &c : kCases) {
    RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim, Order::kByHead);
    FloatRows query(1, c.heads * c.keyDim), out(1, c.heads * c.valueDim);
    FloatRows withSinks(1, c.heads * c.valueDim);
    query.fill(random, -1, 1);
    const std::vector<float> sinks = randomSinks(random, c.heads);
    run(referenceKernels(), c, query, cache.view, out);
    run(referenceKernels(), c, query, cache.view, withSinks, sinks.data());
    for (uint32_t head = 0; head < c.heads; ++head) {
      uint32_t kvHead = head / (c.heads / c.kvHeads);
      std::vector<double> scores, sums(c.valueDim);
      double largest = -HUGE_VAL, sum = 0;
      for (uint32_t j = c.begin; j < c.end; ++j) {
        double score = 0;
        for (uint32_t i = 0; i < c.keyDim; ++i)
          score += double(query.at(0, head * c.keyDim + i)) * cache.key(j, kvHead)[i];
        scores.push_back(score * double(0.3f));
        largest = std::max(largest, scores.back());
      }
      for (uint32_t j = c.begin; j < c.end; ++j) {
        double p = std::exp(scores[j - c.begin] - largest);
        sum += p;
        for (uint32_t d = 0; d < c.valueDim; ++d)
          sums[d] += p * cache.value(j, kvHead)[d];
      }
      const double sink = std::exp(double(sinks[head]) - largest);
      for (uint32_t d = 0; d < c.valueDim; ++d) {
        CHECK(std::fabs(out.at(0, head * c.valueDim + d) - sums[d] / sum) <= 2e-5);
        CHECK(std::fabs(withSinks.at(0, head * c.valueDim + d) - sums[d] / (sum + sink)) <= 2e-5);
      }
    }
  }
}
