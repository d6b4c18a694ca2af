#include "runtime/evaluation/RowScore.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace moert;

/// The same scores in long double and libm, in the plainest way.
static RowScore plainScore(const std::vector<float> &logits, const std::vector<float> &reference,
                           size_t target) {
  auto logSum = [](const std::vector<float> &row) {
    long double sum = 0;
    for (float x : row)
      sum += std::exp(static_cast<long double>(x));
    return std::log(sum);
  };
  long double kl = 0, p = logSum(logits), r = logSum(reference);
  for (size_t i = 0; i < logits.size(); ++i)
    kl += std::exp(reference[i] - r) * ((reference[i] - r) - (logits[i] - p));
  return {double(p - logits[target]), double(r - reference[target]), double(kl), false};
}

static std::vector<float> randomRow(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> row(size);
  for (float &x : row)
    x = static_cast<float>(random() % 2000) / 100 - 10;
  return row;
}

TEST_CASE("a row's loss, the reference's and their divergence are those of the plain sums") {
  for (size_t size : {1, 2, 7, 8, 9, 31, 4096}) {
    auto logits = randomRow(size, 1), reference = randomRow(size, 2);
    auto score = scoreRow(logits, reference, static_cast<int32_t>(size / 2));
    REQUIRE(score.isOk());
    RowScore plain = plainScore(logits, reference, size / 2);
    CHECK(score->lossNats == doctest::Approx(plain.lossNats).epsilon(1e-12));
    CHECK(score->referenceLossNats == doctest::Approx(plain.referenceLossNats).epsilon(1e-12));
    CHECK(score->klNats == doctest::Approx(plain.klNats).epsilon(1e-12));
  }
}

TEST_CASE("a reference does not change the loss") {
  auto logits = randomRow(100, 3), reference = randomRow(100, 4);
  CHECK(scoreRow(logits, {}, 5)->lossNats == scoreRow(logits, reference, 5)->lossNats);
}

TEST_CASE("equal rows agree and diverge by exactly nothing") {
  auto logits = randomRow(1000, 5);
  auto score = scoreRow(logits, logits, 7);
  CHECK(score->klNats == 0);
  CHECK(score->agrees);
  CHECK(score->lossNats == score->referenceLossNats);
}

TEST_CASE("agreement compares the lowest index of the largest logits") {
  CHECK(scoreRow(std::vector<float>{1, 2, 2}, std::vector<float>{0, 5, 0}, 0)->agrees);
  CHECK_FALSE(scoreRow(std::vector<float>{1, 2, 2}, std::vector<float>{0, 0, 5}, 0)->agrees);
}

TEST_CASE("logits far apart do not overflow") {
  auto score = scoreRow(std::vector<float>{3e38f, -3e38f}, std::vector<float>{-3e38f, 3e38f}, 0);
  CHECK(score->lossNats == 0);
  CHECK(std::isfinite(score->klNats));
}

TEST_CASE("a logit that is not finite is an error that names its token and whose it is") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float broken : {infinity, -infinity, std::nanf("")}) {
    auto artifact = scoreRow(std::vector<float>{0, broken}, {}, 0);
    CHECK(artifact.status().code() == StatusCode::kInvalidInput);
    CHECK(artifact.status().message().find("token 1") != std::string::npos);
    auto reference = scoreRow(std::vector<float>{0, 1}, std::vector<float>{broken, 1}, 0);
    CHECK(reference.status().message().find("reference") != std::string::npos);
  }
}
