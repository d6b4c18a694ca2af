// Attention over a scattered cache: every version against the reference, the reference against
// float64.
#include "tests/unit/kernels/TestMatrices.h"

using namespace moert;
using namespace moert::test;

namespace {

/// A cache of random keys and values, its blocks in a shuffled order.
struct RandomCache {
  RandomCache(Random &random, uint32_t tokens, uint32_t kvHeads, uint32_t keyDim, uint32_t valueDim)
      : keys(fill(random, tokens, kvHeads * keyDim, keyBlocks)),
        values(fill(random, tokens, kvHeads * valueDim, valueBlocks)), view{keyBlocks.data(),
                                                                            valueBlocks.data(),
                                                                            kvHeads, keyDim,
                                                                            valueDim} {}

  const float *key(uint32_t token, uint32_t head) const {
    return keyBlocks[token / kKvBlockTokens] +
           (head * kKvBlockTokens + token % kKvBlockTokens) * view.keyDim;
  }
  const float *value(uint32_t token, uint32_t head) const {
    return valueBlocks[token / kKvBlockTokens] +
           (head * kKvBlockTokens + token % kKvBlockTokens) * view.valueDim;
  }

  std::vector<const float *> keyBlocks, valueBlocks;
  std::vector<float> keys, values;
  KvView view;

private:
  static std::vector<float> fill(Random &random, uint32_t tokens, uint32_t width,
                                 std::vector<const float *> &blocks) {
    uint64_t count = divideUp(tokens, kKvBlockTokens), size = uint64_t(kKvBlockTokens) * width;
    std::vector<float> all(count * size);
    for (float &x : all)
      x = random.between(-2, 2);
    for (uint64_t i = 0; i < count; ++i)
      blocks.push_back(all.data() + i * size);
    for (uint64_t i = count; i > 1; --i)
      std::swap(blocks[i - 1], blocks[random.below(static_cast<uint32_t>(i))]);
    return all;
  }
};

struct Case {
  uint32_t heads, kvHeads, keyDim, valueDim, begin, end;
};

// Heads alone and shared, dimensions odd and larger than the registers, windows that start
// anywhere, one key, a last key just behind a block of sums.
constexpr Case kCases[] = {
    {1, 1, 8, 8, 0, 1},       {4, 2, 32, 32, 0, 37},     {8, 2, 64, 64, 0, 256},
    {2, 1, 128, 128, 0, 257}, {4, 4, 80, 80, 3, 300},    {2, 2, 192, 128, 255, 530},
    {2, 1, 17, 35, 100, 101}, {6, 3, 96, 176, 250, 260}, {2, 1, 64, 300, 511, 777},
    {2, 2, 16, 3, 17, 1030},
};

uint64_t scratchFloats(const Case &c) {
  return roundUp(c.end - c.begin, 16) + roundUp(c.valueDim, 16);
}

void run(const KernelTable &kernels, const Case &c, const FloatRows &query, const KvView &kv,
         FloatRows &out) {
  FloatRows scratch(1, static_cast<uint32_t>(scratchFloats(c)));
  kernels.attend(query.data(), kv, c.heads, 0, c.heads, c.begin, c.end, 0.3f, out.data(),
                 scratch.data());
  CHECK(out.isGuardIntact());
  CHECK(scratch.isGuardIntact());
}

} // namespace

TEST_CASE("attend gives the reference's bytes for every shape and window") {
  Random random(1);
  for (const Case &c : kCases) {
    CAPTURE(c.keyDim);
    CAPTURE(c.end);
    RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim);
    FloatRows query(1, c.heads * c.keyDim), expected(1, c.heads * c.valueDim);
    query.fill(random, -1, 1);
    run(referenceKernels(), c, query, cache.view, expected);
    forEachVersion([&](const KernelTable &kernels) {
      FloatRows out(1, c.heads * c.valueDim);
      run(kernels, c, query, cache.view, out);
      CHECK(out.isSameAs(expected));
    });
  }
}

TEST_CASE("attend computes its heads and touches no others") {
  Random random(2);
  RandomCache cache(random, 70, 3, 24, 40);
  FloatRows query(1, 6 * 24), all(1, 6 * 40), scratch(1, 80 + 48);
  query.fill(random, -1, 1);
  referenceKernels().attend(query.data(), cache.view, 6, 0, 6, 5, 70, 0.2f, all.data(),
                            scratch.data());
  auto check = [&](const KernelTable &kernels) {
    for (uint32_t begin = 0; begin < 6; ++begin)
      for (uint32_t end = begin; end <= 6; ++end) {
        FloatRows out(1, 6 * 40);
        kernels.attend(query.data(), cache.view, 6, begin, end, 5, 70, 0.2f, out.data(),
                       scratch.data());
        CHECK(out.isUntouchedOutside(begin * 40, end * 40));
        for (uint32_t i = begin * 40; i < end * 40; ++i)
          CHECK(isSame(out.at(0, i), all.at(0, i)));
      }
  };
  check(referenceKernels());
  forEachVersion(check);
}

TEST_CASE("attend agrees with the reference on scores that are infinite or no numbers") {
  Random random(3);
  for (float special : {std::nanf(""), HUGE_VALF, -HUGE_VALF, 3e38f, -3e38f}) {
    const Case c = {2, 1, 20, 20, 0, 50};
    RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim);
    const_cast<float *>(cache.key(33, 0))[18] = special;
    FloatRows query(1, c.heads * c.keyDim), expected(1, c.heads * c.valueDim);
    query.fill(random, 1, 2);
    run(referenceKernels(), c, query, cache.view, expected);
    forEachVersion([&](const KernelTable &kernels) {
      FloatRows out(1, c.heads * c.valueDim);
      run(kernels, c, query, cache.view, out);
      CHECK(out.isSameAs(expected));
    });
  }
}

TEST_CASE("the reference of attend is within float rounding of float64") {
  // Scores up to 0.3 * keyDim * 2 carry errors of about keyDim roundings of 2^-24 of that, which
  // the exponential turns into relative ones; the sums add up to a block's 256 roundings. 2e-4 of
  // the values' range of 2 is five times the largest error of these cases.
  Random random(4);
  for (const Case &c : kCases) {
    RandomCache cache(random, c.end, c.kvHeads, c.keyDim, c.valueDim);
    FloatRows query(1, c.heads * c.keyDim), out(1, c.heads * c.valueDim);
    query.fill(random, -1, 1);
    run(referenceKernels(), c, query, cache.view, out);
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
      for (uint32_t d = 0; d < c.valueDim; ++d)
        CHECK(std::fabs(out.at(0, head * c.valueDim + d) - sums[d] / sum) <= 2e-5);
    }
  }
}
