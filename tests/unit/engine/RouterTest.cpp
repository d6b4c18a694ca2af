#include "runtime/engine/Router.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

using namespace moert;

namespace {

constexpr uint32_t kExperts = 4;
// Kernels write whole vectors.
using Row = std::array<float, 16>;
constexpr Row kScores = {0.5f, -1, 2, 0};

RouteInstruction routeBy(RouterScoring scoring) {
  RouteInstruction route{};
  route.scoring = scoring;
  route.weightScale = 1;
  return route;
}

Row likelihoodsBy(RouterScoring scoring, const float *bias) {
  Row likelihoods = {};
  Router(routeBy(scoring), 2, {.choiceBias = bias}, kExperts, referenceKernels())
      .computeLikelihoods(kScores.data(), likelihoods.data());
  return likelihoods;
}

} // namespace

TEST_CASE("a sigmoid router's probabilities are those of each expert alone") {
  Row probabilities = {};
  Router(routeBy(RouterScoring::kSigmoid), 2, {}, kExperts, referenceKernels())
      .computeProbabilities(kScores.data(), probabilities.data());
  for (uint32_t i = 0; i < kExperts; ++i)
    CHECK(probabilities[i] == doctest::Approx(1 / (1 + std::exp(-kScores[i]))).epsilon(1e-6));
}

TEST_CASE("without a bias, predictions rank experts by their probabilities") {
  for (RouterScoring scoring : {RouterScoring::kSoftmaxThenTopK, RouterScoring::kSigmoid}) {
    Row probabilities = {};
    Router(routeBy(scoring), 2, {}, kExperts, referenceKernels())
        .computeProbabilities(kScores.data(), probabilities.data());
    CHECK(likelihoodsBy(scoring, nullptr) == probabilities);
  }
}

TEST_CASE("with a bias, predictions rank experts by the scores that choose, between 0 and 1") {
  // A common part of the biases, such as 10, chooses nothing.
  const std::array<float, kExperts> bias = {10, 11, 9, 10};
  const Row likelihoods = likelihoodsBy(RouterScoring::kSigmoid, bias.data());
  std::array<int32_t, 2> chosen;
  std::array<float, 2> weights;
  const Router router(routeBy(RouterScoring::kSigmoid), 2, {.choiceBias = bias.data()}, kExperts,
                      referenceKernels());
  Row probabilities = {};
  router.computeProbabilities(kScores.data(), probabilities.data());
  router.choose(probabilities.data(), chosen, weights);
  CHECK(chosen == std::array<int32_t, 2>{1, 0});
  CHECK(weights[0] == probabilities[1]);
  CHECK(likelihoods[1] == 1);
  CHECK(likelihoods[0] > likelihoods[3]);
  CHECK(likelihoods[3] > likelihoods[2]);
  CHECK(likelihoods[2] == 0);
}

//===-- Choice by scores ----------------------------------------------------------------------===//

namespace {

struct Choice {
  std::array<int32_t, 2> experts;
  std::array<float, 2> weights;
};

Choice sparsemixer(const Row &scores, float tolerance) {
  RouteInstruction route = routeBy(RouterScoring::kSparsemixer);
  route.tolerance = tolerance;
  const Router router(route, 2, Router::Vectors{}, kExperts, referenceKernels());
  Row probabilities = {};
  router.computeProbabilities(scores.data(), probabilities.data());
  Choice choice;
  router.choose(probabilities.data(), choice.experts, choice.weights);
  return choice;
}

} // namespace

TEST_CASE("Sparsemixer weighs an expert against those whose scores are near, the second without "
          "the first") {
  // Distances from 2: (2 - 1.9) / 2 = 0.05 and (2 - 1.84) / 2 = 0.08; from 1.9: 0.06 / 1.9 = 0.03.
  const Choice choice = sparsemixer({1.84f, -1, 2, 1.9f}, 0.03f);
  CHECK(choice.experts == std::array<int32_t, 2>{2, 3});
  CHECK(choice.weights[0] == doctest::Approx(1 / (1 + std::exp(-0.1))).epsilon(1e-6));
  CHECK(choice.weights[1] == doctest::Approx(1 / (1 + std::exp(-0.06))).epsilon(1e-6));
}

TEST_CASE("Sparsemixer divides by the larger of the best score and a score's magnitude") {
  // From -1, the distance of -1.05 is 0.05 / 1.05 < 0.048: by 1 it would be 0.05.
  const Choice choice = sparsemixer({-1.05f, -4, -1, -4}, 0.024f);
  CHECK(choice.experts == std::array<int32_t, 2>{2, 0});
  CHECK(choice.weights[0] == doctest::Approx(1 / (1 + std::exp(-0.05))).epsilon(1e-6));
  CHECK(choice.weights[1] == 1);
}

TEST_CASE("the sigmoid of the largest scores distinguishes scores whose sigmoids are equal") {
  const Row scores = {20, 21, 22, 19};
  const Router router(routeBy(RouterScoring::kTopKThenSigmoid), 1, Router::Vectors{}, kExperts,
                      referenceKernels());
  Row probabilities = {};
  router.computeProbabilities(scores.data(), probabilities.data());
  std::array<int32_t, 1> chosen;
  alignas(64) std::array<float, 16> weights;
  router.choose(probabilities.data(), chosen, std::span(weights).first(1));
  CHECK(chosen[0] == 2);
  CHECK(weights[0] == doctest::Approx(1 / (1 + std::exp(-22.0))));
}

TEST_CASE("predictions rank by the softmax of scores that choose themselves") {
  Row softmax = {};
  referenceKernels().softmax(kScores.data(), kExperts, softmax.data());
  for (RouterScoring scoring : {RouterScoring::kSparsemixer, RouterScoring::kTopKThenSigmoid})
    CHECK(likelihoodsBy(scoring, nullptr) == softmax);
}

TEST_CASE("choice scores that are all equal are likelihoods of 1") {
  const std::array<float, kExperts> bias = {1, 1, 1, 1};
  RouteInstruction route = routeBy(RouterScoring::kSigmoid);
  const Row scores = {};
  Row likelihoods = {};
  Router(route, 2, {.choiceBias = bias.data()}, kExperts, referenceKernels())
      .computeLikelihoods(scores.data(), likelihoods.data());
  for (uint32_t i = 0; i < kExperts; ++i)
    CHECK(likelihoods[i] == 1);
}

TEST_CASE("each expert's weight has its own factor, which chooses nothing") {
  const std::array<float, kExperts> factors = {3, 5, 0.5f, 7};
  RouteInstruction route = routeBy(RouterScoring::kSigmoid);
  route.renormalize = true;
  route.weightScale = 2;
  std::array<int32_t, 2> chosen, plainlyChosen;
  std::array<float, 2> weights, plain;
  Row probabilities = {};
  const Router router(route, 2, {.weightFactors = factors.data()}, kExperts, referenceKernels());
  router.computeProbabilities(kScores.data(), probabilities.data());
  router.choose(probabilities.data(), chosen, weights);
  Router(route, 2, {}, kExperts, referenceKernels())
      .choose(probabilities.data(), plainlyChosen, plain);
  CHECK(chosen == std::array<int32_t, 2>{2, 0});
  CHECK(chosen == plainlyChosen);
  CHECK(weights == std::array<float, 2>{plain[0] * 0.5f, plain[1] * 3});
  Row likelihoods = {};
  router.computeLikelihoods(kScores.data(), likelihoods.data());
  CHECK(likelihoods == probabilities);
}
