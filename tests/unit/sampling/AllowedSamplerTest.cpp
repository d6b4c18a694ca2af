// Sampling among allowed tokens, against sampling from rows in which all others are -infinity.
#include "runtime/base/RandomStream.h"
#include "runtime/text/sampling/Sampler.h"

#include <doctest/doctest.h>
#include <limits>

using namespace moert;

namespace {

constexpr uint32_t kTokens = 3000;

struct Row {
  std::vector<float> logits, masked;
  std::vector<bool> isAllowed;
  std::vector<int32_t> allowed;
};

/// sharpness: how far the logits are apart; fraction: of allowed tokens.
Row rowOf(RandomStream &random, double sharpness, double fraction) {
  Row row;
  for (uint32_t token = 0; token < kTokens; ++token) {
    // A sum of uniform numbers has tails, and rounding makes ties.
    double logit = 0;
    for (int i = 0; i < 4; ++i)
      logit += (random.nextUnit() - 0.5) * sharpness;
    row.logits.push_back(static_cast<float>(static_cast<int>(logit * 256)) / 256);
    row.isAllowed.push_back(random.nextUnit() < fraction);
    if (row.isAllowed.back())
      row.allowed.push_back(static_cast<int32_t>(token));
    row.masked.push_back(row.isAllowed.back() ? row.logits.back()
                                              : -std::numeric_limits<float>::infinity());
  }
  return row;
}

/// Options that cut in each way.
std::vector<SamplingOptions> cuttingOptions() {
  std::vector<SamplingOptions> all(1); // Greedy.
  for (float temperature : {0.3f, 1.0f})
    for (uint32_t topK : {0, 1, 20, 400})
      for (float topP : {1.0f, 0.9f, 0.3f})
        for (float minP : {0.0f, 0.05f}) {
          SamplingOptions options;
          options.temperature = temperature;
          options.topK = topK;
          options.topP = topP;
          options.minP = minP;
          if (topK > 0 || topP < 1 || minP > 0)
            all.push_back(options);
        }
  SamplingOptions penalized = all.back();
  penalized.presencePenalty = 1;
  penalized.logitBias = {{7, 8.0f}};
  all.push_back(penalized);
  return all;
}

} // namespace

TEST_CASE("with cuts the token is the one that masking all other tokens gives, for few verdicts") {
  RandomStream random(1);
  std::vector<float> scratch;
  int sampled = 0, open = 0;
  for (double sharpness : {4.0, 16.0, 60.0})
    for (double fraction : {0.9, 0.3, 0.01}) {
      for (SamplingOptions options : cuttingOptions()) {
        CAPTURE(sharpness);
        CAPTURE(fraction);
        CAPTURE(options.temperature);
        CAPTURE(options.topK);
        CAPTURE(options.topP);
        CAPTURE(options.minP);
        options.seed = static_cast<uint64_t>(sampled);
        Sampler few = Sampler::create(options, kTokens).value();
        Sampler all = Sampler::create(options, kTokens).value();
        for (int step = 0; step < 3; ++step) {
          const Row row = rowOf(random, sharpness, fraction);
          size_t verdicts = 0;
          Result<std::optional<int32_t>> token =
              few.sampleAllowed(row.logits, scratch, [&](int32_t one) {
                ++verdicts;
                return std::optional(bool(row.isAllowed[static_cast<size_t>(one)]));
              });
          REQUIRE(token.isOk());
          CHECK(verdicts <= Sampler::kMostRanked);
          const int32_t expected = all.sample(row.masked).value();
          ++sampled;
          open += !*token;
          if (!*token)
            CHECK(few.sampleFrom(row.allowed, row.logits, scratch).value() == expected);
          else
            CHECK(**token == expected);
          few.addGenerated(expected);
          all.addGenerated(expected);
        }
      }
    }
  CHECK(open < sampled / 3); // Flat rows, and those with few allowed tokens.
  CHECK(open > 0);
}

TEST_CASE("a token that waits for each verdict is the same that they give at once, for as many") {
  RandomStream random(2);
  std::vector<float> scratch;
  std::vector<SamplingOptions> all = cuttingOptions();
  SamplingOptions plain;
  plain.temperature = 1;
  all.push_back(plain);
  for (const SamplingOptions &options : all) {
    Sampler patient = Sampler::create(options, kTokens).value(), other = patient;
    for (int step = 0; step < 3; ++step) {
      const Row row = rowOf(random, 30, 0.2);
      size_t given = 0;
      auto sampled = [&](Sampler &sampler, size_t most) {
        given = 0;
        return sampler
            .sampleAllowed(row.logits, scratch,
                           [&](int32_t token) -> std::optional<bool> {
                             if (given == most)
                               return std::nullopt;
                             ++given;
                             return row.isAllowed[static_cast<size_t>(token)];
                           })
            .value();
      };
      const std::optional<int32_t> expected = sampled(other, 1000);
      const size_t needed = given;
      CHECK_FALSE(sampled(patient, 0));
      for (size_t part = 1; part < needed; ++part) {
        scratch.clear(); // Others use it meanwhile.
        CHECK_FALSE(sampled(patient, 1));
      }
      CHECK(sampled(patient, 1) == expected);
    }
  }
}

TEST_CASE("without cuts each allowed token is drawn with its probability among these") {
  // 1/2, 1/4, 1/8, ...; the odd ones are allowed: 3/4, 3/16, ...
  std::vector<float> logits, scratch;
  for (int token = 0; token < 16; ++token)
    logits.push_back(static_cast<float>(-token) * 0.6931472f);
  SamplingOptions options;
  options.temperature = 1;
  Sampler sampler = Sampler::create(options, 16).value();
  std::vector<int> counts(16, 0);
  constexpr int kDraws = 20'000;
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto token = sampler.sampleAllowed(
        logits, scratch, [](int32_t one) { return std::optional(one % 2 == 1); });
    REQUIRE(token.value());
    ++counts[static_cast<size_t>(**token)];
  }
  // Three standard deviations.
  CHECK(std::abs(counts[1] - kDraws * 0.75) < 184);
  CHECK(std::abs(counts[3] - kDraws * 0.1875) < 166);
  for (size_t token = 0; token < 16; token += 2)
    CHECK(counts[token] == 0);
}

TEST_CASE("a row without an allowed token is left open") {
  std::vector<float> logits(10, 1), scratch;
  for (float temperature : {0.0f, 1.0f}) {
    SamplingOptions options;
    options.temperature = temperature;
    Sampler sampler = Sampler::create(options, 10).value();
    CHECK_FALSE(sampler.sampleAllowed(logits, scratch, [](int32_t) { return std::optional(false); })
                    .value());
  }
}
