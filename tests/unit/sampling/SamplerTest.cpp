#include "runtime/text/sampling/Sampler.h"

#include "runtime/base/DeterministicMath.h"
#include "tests/unit/support/CountAllocations.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace moert;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// How often each token is sampled in `draws` draws.
static std::vector<int> countsOf(const std::vector<float> &logits, const SamplingOptions &options,
                                 int draws) {
  auto sampler = Sampler::create(options, static_cast<uint32_t>(logits.size()));
  REQUIRE(sampler.isOk());
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    auto token = sampler->sample(logits);
    REQUIRE(token.isOk());
    ++counts[static_cast<size_t>(*token)];
  }
  return counts;
}

/// Pearson's statistic against weights that need not sum to 1; tokens of weight 0 must not occur.
static double chiSquare(const std::vector<int> &counts, const std::vector<double> &weights) {
  double sum = 0, draws = 0, statistic = 0;
  for (double weight : weights)
    sum += weight;
  for (int count : counts)
    draws += count;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (weights[i] == 0) {
      CHECK(counts[i] == 0);
      continue;
    }
    double expected = draws * weights[i] / sum;
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return statistic;
}

static std::vector<double> softWeights(const std::vector<float> &logits, double temperature) {
  std::vector<double> weights;
  for (float logit : logits)
    weights.push_back(std::exp(double(logit) / temperature));
  return weights;
}

static const std::vector<float> kLogits = {0.5f, 2.0f, -1.0f, 1.0f, 0.0f, 1.5f, -2.0f, 0.25f};

// Limits of chi-square tests: the 99.9% quantile for the degrees of freedom in the comment. Seeds
// are fixed, so a test passes always or never.

TEST_CASE("greedy takes the lowest index among the largest logits") {
  CHECK(*greedyToken(std::vector<float>{1, 3, 2, 3}) == 1);
  CHECK(*greedyToken(std::vector<float>{-kInfinity, -5, -kInfinity}) == 1);
  CHECK(*greedyToken(std::vector<float>{0.0f, -0.0f}) == 0);
}

TEST_CASE("temperature 0 and top-k 1 are greedy") {
  CHECK(countsOf(kLogits, {.temperature = 0, .seed = 1}, 10)[1] == 10);
  CHECK(countsOf(kLogits, {.temperature = 5, .topK = 1, .seed = 1}, 10)[1] == 10);
}

TEST_CASE("draws follow the softmax at temperature 1") {
  auto counts = countsOf(kLogits, {.temperature = 1, .seed = 7}, 20000);
  CHECK(chiSquare(counts, softWeights(kLogits, 1)) < 24.32); // 7 degrees.
}

/// Step 7 of Sampler.h in plain loops.
static int32_t plainDraw(const std::vector<float> &logits, const SamplingOptions &options,
                         double unit) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  auto weightOf = [&](float logit) {
    const float weight = deterministicExp32((logit - largest) / options.temperature);
    return weight >= options.minP ? double(weight) : 0;
  };
  double sum = 0, running = 0;
  for (float logit : logits)
    sum += weightOf(logit);
  int32_t chosen = 0;
  for (size_t i = 0; i < logits.size() && running <= unit * sum; ++i) {
    running += weightOf(logits[i]);
    if (weightOf(logits[i]) > 0)
      chosen = static_cast<int32_t>(i);
  }
  return chosen;
}

TEST_CASE("draws from all tokens are those of one running sum") {
  for (const SamplingOptions &options : {SamplingOptions{.temperature = 1, .seed = 3},
                                         {.temperature = 40, .seed = 4},
                                         {.temperature = 1.5f, .seed = 5, .minP = 0.05f}})
    for (size_t size : {1, 2, 63, 64, 65, 300, 5000}) {
      RandomStream values(size), units(options.seed);
      auto sampler = Sampler::create(options, static_cast<uint32_t>(size));
      REQUIRE(sampler.isOk());
      for (int draw = 0; draw < 40; ++draw) {
        std::vector<float> logits(size);
        for (float &logit : logits) // A third have no weight.
          logit = float(values.nextUnit() < 0.67 ? values.nextUnit() * 12 : -5000);
        const int32_t expected = plainDraw(logits, options, units.nextUnit());
        REQUIRE(*sampler->sample(logits) == expected);
      }
    }
}

TEST_CASE("draws follow the softmax at another temperature") {
  auto counts = countsOf(kLogits, {.temperature = 2.5f, .seed = 8}, 20000);
  CHECK(chiSquare(counts, softWeights(kLogits, 2.5)) < 24.32); // 7 degrees.
  CHECK(chiSquare(counts, softWeights(kLogits, 1)) > 1000);
}

TEST_CASE("top-k keeps exactly the k largest, in their own proportions") {
  auto weights = softWeights(kLogits, 1);
  for (size_t i : {0, 2, 4, 6, 7})
    weights[i] = 0;
  auto counts = countsOf(kLogits, {.temperature = 1, .topK = 3, .seed = 9}, 20000);
  CHECK(chiSquare(counts, weights) < 13.82); // 2 degrees.
}

TEST_CASE("top-k cuts through a tie by index") {
  std::vector<float> logits = {0, 1, 1, 1, 1};
  auto counts = countsOf(logits, {.temperature = 1, .topK = 2, .seed = 10}, 1000);
  CHECK(counts[1] + counts[2] == 1000);
  CHECK(counts[1] > 400);
  CHECK(counts[2] > 400);
}

TEST_CASE("top-p keeps the fewest whose probability reaches it") {
  // Probabilities 1/2, 1/4, 1/8, 1/8; the first two sum to 0.75 exactly, which is enough.
  std::vector<float> logits = {0, float(std::log(4)), float(std::log(2)), 0};
  auto below = countsOf(logits, {.temperature = 1, .topP = 0.749f, .seed = 11}, 2000);
  CHECK(below[1] + below[2] == 2000);
  CHECK(below[2] > 500);
  auto above = countsOf(logits, {.temperature = 1, .topP = 0.76f, .seed = 11}, 2000);
  CHECK(above[0] > 100); // The tie for third place goes to the lower index.
  CHECK(above[3] == 0);
  auto tiny = countsOf(logits, {.temperature = 1, .topP = 1e-6f, .seed = 11}, 100);
  CHECK(tiny[1] == 100);
}

TEST_CASE("top-p is relative to the sum that top-k kept") {
  // Of 4 equal tokens top-k keeps 2; half of these two is one.
  std::vector<float> logits = {1, 1, 1, 1};
  auto counts = countsOf(logits, {.temperature = 1, .topK = 2, .topP = 0.5f, .seed = 12}, 100);
  CHECK(counts[0] == 100);
}

TEST_CASE("temperature is applied before top-p") {
  // At temperature 1 the first token has 88%, at 4 it has 62%.
  std::vector<float> logits = {2, 0};
  CHECK(countsOf(logits, {.temperature = 1, .topP = 0.7f, .seed = 13}, 200)[1] == 0);
  CHECK(countsOf(logits, {.temperature = 4, .topP = 0.7f, .seed = 13}, 200)[1] > 0);
}

TEST_CASE("a cut that keeps everything samples from the same distribution") {
  auto counts = countsOf(kLogits, {.temperature = 1, .topK = 7, .topP = 0.999f, .seed = 14}, 20000);
  auto weights = softWeights(kLogits, 1);
  weights[6] = 0;
  CHECK(chiSquare(counts, weights) < 22.46); // 6 degrees.
}

TEST_CASE("the same seed gives the same tokens and another one does not") {
  auto tokensOf = [](uint64_t seed) {
    auto sampler = Sampler::create({.temperature = 1, .seed = seed}, 8);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 64; ++i)
      tokens.push_back(*sampler->sample(kLogits));
    return tokens;
  };
  CHECK(tokensOf(3) == tokensOf(3));
  CHECK(tokensOf(3) != tokensOf(4));
}

TEST_CASE("the random numbers are those of xoshiro256++ seeded by splitmix64") {
  // Computed with the authors' published C code for seed 0.
  RandomStream random(0);
  CHECK(random.next() == 0x53175D61490B23DFu);
  CHECK(random.next() == 0x61DA6F3DC380D507u);
  CHECK(random.next() == 0x5C0FDF91EC9A7BFCu);
}

TEST_CASE("masked tokens are never sampled") {
  std::vector<float> logits = {-kInfinity, 1, -kInfinity, 1, -kInfinity};
  auto counts = countsOf(logits, {.temperature = 100, .seed = 15}, 500);
  CHECK(counts[1] + counts[3] == 500);
  counts = countsOf(logits, {.temperature = 100, .topK = 4, .seed = 15}, 500);
  CHECK(counts[1] + counts[3] == 500);
}

TEST_CASE("a tiny temperature does not overflow") {
  std::vector<float> logits = {-3e38f, 3e38f, 0};
  CHECK(countsOf(logits, {.temperature = 1e-30f, .seed = 16}, 20)[1] == 20);
}

TEST_CASE("a row with NaN or +infinity, or without any finite logit, is an error") {
  auto sampler = Sampler::create({.temperature = 1}, 3);
  REQUIRE(sampler.isOk());
  for (std::vector<float> logits : {std::vector<float>{1, std::nanf(""), 2},
                                    {std::nanf(""), 1, 2},
                                    {1, kInfinity, 2},
                                    {-kInfinity, -kInfinity, -kInfinity}}) {
    CHECK(sampler->sample(logits).status().code() == StatusCode::kInvalidInput);
    CHECK(greedyToken(logits).status().code() == StatusCode::kInvalidInput);
  }
  CHECK(
      sampler->sample(std::vector<float>{1, std::nanf(""), 2}).status().message().find("token 1") !=
      std::string::npos);
}

TEST_CASE("min-p keeps the tokens at least p times as likely as the best one") {
  // Weights relative to the best: 1/2, 1, 1/4, 1/8.
  std::vector<float> logits = {float(std::log(4)), float(std::log(8)), float(std::log(2)), 0};
  auto counts = countsOf(logits, {.temperature = 1, .seed = 17, .minP = 0.24f}, 20000);
  CHECK(chiSquare(counts, {4, 8, 2, 0}) < 13.82); // 2 degrees.
  auto best = countsOf(logits, {.temperature = 1, .seed = 17, .minP = 1}, 100);
  CHECK(best[1] == 100);
}

TEST_CASE("min-p is applied after temperature, top-k and top-p") {
  std::vector<float> logits = {float(std::log(4)), float(std::log(8)), float(std::log(2)), 0};
  // At temperature 2 the weights are the square roots: 0.71, 1, 0.5, 0.35.
  auto counts = countsOf(logits, {.temperature = 2, .seed = 18, .minP = 0.49f}, 20000);
  CHECK(chiSquare(counts, {std::sqrt(4), std::sqrt(8), std::sqrt(2), 0}) < 13.82);
  // Top-k keeps three; the third has a quarter of the best one's weight.
  counts = countsOf(logits, {.temperature = 1, .topK = 3, .seed = 18, .minP = 0.3f}, 20000);
  CHECK(chiSquare(counts, {4, 8, 0, 0}) < 10.83); // 1 degree.
  // Top-p 0.9 of the sum 15 keeps 8 + 4 + 2 >= 13.5. After min-p, 12 would have been the sum, of
  // which 8 + 4 >= 10.8; the order does not show here, but the rest must keep its proportions.
  counts = countsOf(logits, {.temperature = 1, .topP = 0.9f, .seed = 18, .minP = 0.3f}, 20000);
  CHECK(chiSquare(counts, {4, 8, 0, 0}) < 10.83);
  // Top-p 0.6 keeps 8 + 4 >= 9. If min-p came first, 8 of 12 would be enough.
  counts = countsOf(logits, {.temperature = 1, .topP = 0.6f, .seed = 18, .minP = 0.3f}, 1000);
  CHECK(counts[0] > 200);
}

/// The greedy token after the sequence, with penalties that tests choose so that it shows a logit's
/// adjusted value: token 0 has the threshold.
static int32_t greedyAfter(const SamplingOptions &options, std::span<const int32_t> prompt,
                           std::span<const int32_t> generated, const std::vector<float> &logits) {
  auto sampler = Sampler::create(options, static_cast<uint32_t>(logits.size()));
  REQUIRE(sampler.isOk());
  sampler->addPrompt(prompt);
  for (int32_t token : generated)
    sampler->addGenerated(token);
  return *sampler->sample(logits);
}

TEST_CASE("the repetition penalty divides positive logits and multiplies the others") {
  const std::vector<int32_t> seen = {1, 1};
  const SamplingOptions options = {.repetitionPenalty = 2};
  // 3 / 2 = 1.5, however often the token occurred.
  CHECK(greedyAfter(options, seen, {}, {1.51f, 3}) == 0);
  CHECK(greedyAfter(options, seen, {}, {1.49f, 3}) == 1);
  // -1 * 2 = -2.
  CHECK(greedyAfter(options, {}, seen, {-1.99f, -1}) == 0);
  CHECK(greedyAfter(options, {}, seen, {-2.01f, -1}) == 1);
}

TEST_CASE("presence and frequency penalties count generated tokens alone") {
  const std::vector<int32_t> once = {1}, thrice = {1, 1, 1};
  const SamplingOptions options = {.presencePenalty = 0.5f, .frequencyPenalty = 0.25f};
  CHECK(greedyAfter(options, thrice, {}, {1.99f, 2}) == 1);
  // 2 - 0.25 - 0.5 = 1.25 and 2 - 3 * 0.25 - 0.5 = 0.75.
  CHECK(greedyAfter(options, {}, once, {1.26f, 2}) == 0);
  CHECK(greedyAfter(options, {}, once, {1.24f, 2}) == 1);
  CHECK(greedyAfter(options, {}, thrice, {0.76f, 2}) == 0);
  CHECK(greedyAfter(options, {}, thrice, {0.74f, 2}) == 1);
}

TEST_CASE("biases are added before the penalties, and -infinity excludes a token") {
  const std::vector<int32_t> seen = {1};
  // (1 + 3) / 2 = 2, while 1 / 2 + 3 would be 3.5.
  const SamplingOptions options = {.repetitionPenalty = 2, .logitBias = {{1, 3}}};
  CHECK(greedyAfter(options, seen, {}, {2.01f, 1}) == 0);
  CHECK(greedyAfter(options, seen, {}, {1.99f, 1}) == 1);
  CHECK(greedyAfter({.logitBias = {{1, -kInfinity}}}, {}, {}, {-50, 9}) == 0);
  auto counts =
      countsOf({0, 0, 0}, {.temperature = 1, .seed = 19, .logitBias = {{2, -kInfinity}}}, 1000);
  CHECK(counts[2] == 0);
  CHECK(counts[0] > 400);
}

TEST_CASE("a new sequence forgets the tokens that penalties count") {
  auto sampler = Sampler::create({.presencePenalty = 5}, 2);
  sampler->addGenerated(1);
  CHECK(*sampler->sample(std::vector<float>{1, 2}) == 0);
  sampler->beginSequence();
  CHECK(*sampler->sample(std::vector<float>{1, 2}) == 1);
}

TEST_CASE("tokens outside the vocabulary are not counted") {
  auto sampler = Sampler::create({.repetitionPenalty = 2}, 2);
  sampler->addPrompt(std::vector<int32_t>{2, -1, INT32_MAX});
  CHECK(*sampler->sample(std::vector<float>{1, 2}) == 1);
}

TEST_CASE("options that adjust nothing use no memory") {
  CHECK(Sampler::memoryBytes({.temperature = 1}, 1000) == 0);
  CHECK(Sampler::memoryBytes({.logitBias = {{1, 1}}}, 1000) >= 4000);
  CHECK(Sampler::memoryBytes({.presencePenalty = 1}, 1000) >= 12000);
}

TEST_CASE("sampling allocates nothing") {
  std::vector<SamplingOptions> all = {{},
                                      {.temperature = 1},
                                      {.temperature = 1, .topK = 3},
                                      {.temperature = 1, .topK = 5, .topP = 0.5f},
                                      {.temperature = 1,
                                       .topP = 0.9f,
                                       .minP = 0.1f,
                                       .repetitionPenalty = 1.1f,
                                       .presencePenalty = 0.5f,
                                       .frequencyPenalty = 0.01f,
                                       .logitBias = {{3, 1}, {4, -kInfinity}}}};
  for (const SamplingOptions &options : all) {
    auto sampler = Sampler::create(options, 8);
    bool allDrawn = true;
    const std::vector<int32_t> prompt = {1, 2, 3};
    const uint64_t before = allocationsSoFar();
    sampler->beginSequence();
    sampler->addPrompt(prompt);
    for (int i = 0; i < 100; ++i) {
      Result<int32_t> token = sampler->sample(kLogits);
      allDrawn = allDrawn && token.isOk();
      sampler->addGenerated(*token);
    }
    const uint64_t after = allocationsSoFar();
    CHECK(after == before);
    CHECK(allDrawn);
  }
}

TEST_CASE("options outside their ranges are refused") {
  auto refused = [](const SamplingOptions &options) {
    return Sampler::create(options, 8).status().code() == StatusCode::kInvalidInput;
  };
  CHECK(refused({.temperature = -0.1f}));
  CHECK(refused({.temperature = std::nanf("")}));
  CHECK(refused({.temperature = kInfinity}));
  CHECK(refused({.temperature = 1, .topP = 0}));
  CHECK(refused({.temperature = 1, .topP = 1.01f}));
  CHECK(refused({.temperature = 1, .topP = std::nanf("")}));
  CHECK(refused({.minP = -0.01f}));
  CHECK(refused({.minP = 1.01f}));
  CHECK(refused({.minP = std::nanf("")}));
  CHECK(refused({.repetitionPenalty = 0}));
  CHECK(refused({.repetitionPenalty = 101}));
  CHECK(refused({.repetitionPenalty = std::nanf("")}));
  CHECK(refused({.presencePenalty = 101}));
  CHECK(refused({.frequencyPenalty = -101}));
  CHECK(refused({.frequencyPenalty = std::nanf("")}));
  CHECK(refused({.logitBias = {{8, 1}}}));
  CHECK(refused({.logitBias = {{-1, 1}}}));
  CHECK(refused({.logitBias = {{1, kInfinity}}}));
  CHECK(refused({.logitBias = {{1, std::nanf("")}}}));
  CHECK(refused({.logitBias = {{1, 2}, {3, 4}, {1, 2}}}));
  CHECK(Sampler::create({}, 0).status().code() == StatusCode::kInvalidInput);
  CHECK(Sampler::create({.temperature = 1, .topP = 1}, 8).isOk());
}

TEST_CASE("a checkpoint's sampling defaults are greedy unless it samples or states numbers") {
  CHECK(samplingOf(std::nullopt).temperature == 0);
  CHECK(samplingOf(SamplingDefaults{}).temperature == 0);
  const SamplingOptions off = samplingOf(
      SamplingDefaults{.doSample = false, .temperature = 0.5f, .repetitionPenalty = 1.25f});
  CHECK(off.temperature == 0);
  CHECK(off.repetitionPenalty == 1.25f);
  CHECK(samplingOf(SamplingDefaults{.doSample = true}).temperature == 1);
  CHECK(samplingOf(SamplingDefaults{.topP = 0.75f}).temperature == 1);
  const SamplingOptions all = samplingOf(SamplingDefaults{true, 0.5f, 20, 0.75f, 0.125f, 1.25f});
  CHECK(all.temperature == 0.5f);
  CHECK(all.topK == 20);
  CHECK(all.topP == 0.75f);
  CHECK(all.minP == 0.125f);
  CHECK(all.repetitionPenalty == 1.25f);
}
