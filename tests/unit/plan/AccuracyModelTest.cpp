// The accuracy model of virtual experts: what it learns from measured configurations.
#include "compiler/plan/AccuracyModel.h"

#include "runtime/base/RandomStream.h"

#include <doctest/doctest.h>
#include <vector>

using namespace moec;
using namespace moert;

namespace {

/// Absent experts cost more the more are absent, and four times as much in the third layer.
double trueLoss(const std::vector<double> &inMemory) {
  double loss = 0.1;
  for (size_t l = 0; l < inMemory.size(); ++l)
    loss += (l == 2 ? 0.8 : 0.2) * (1 - inMemory[l]) * (1 - inMemory[l]);
  return loss;
}

std::vector<AccuracySample> measured(size_t count, uint64_t seed) {
  RandomStream random(seed);
  std::vector<AccuracySample> samples(count);
  for (AccuracySample &sample : samples) {
    for (int layer = 0; layer < 6; ++layer)
      sample.inMemory.push_back(0.1 + 0.9 * random.nextUnit());
    sample.loss = trueLoss(sample.inMemory);
  }
  return samples;
}

} // namespace

TEST_CASE("a model of sixty configurations explains what others lose") {
  const AccuracyModel model = AccuracyModel::fit(measured(60, 1));
  CHECK(model.samples() == 60);
  CHECK(model.heldOutR2() > 0.8);
  double squares = 0, variance = 0, mean = 0;
  const std::vector<AccuracySample> others = measured(200, 2);
  for (const AccuracySample &other : others)
    mean += other.loss / 200;
  for (const AccuracySample &other : others) {
    squares +=
        (model.lossOf(other.inMemory) - other.loss) * (model.lossOf(other.inMemory) - other.loss);
    variance += (other.loss - mean) * (other.loss - mean);
  }
  CHECK(squares < 0.2 * variance);
}

TEST_CASE("a model learns which layer needs its experts most") {
  const AccuracyModel model = AccuracyModel::fit(measured(60, 1));
  const std::vector<double> even(6, 0.5);
  for (size_t layer = 0; layer < 6; ++layer) {
    std::vector<double> less = even;
    less[layer] = 0.2;
    CHECK(model.lossOf(less) > model.lossOf(even));
    if (layer == 2)
      continue;
    std::vector<double> third = even;
    third[2] = 0.2;
    CHECK(model.lossOf(third) > model.lossOf(less));
  }
}

TEST_CASE("the same samples and seed give the same bits, another seed others") {
  const std::vector<double> half(6, 0.5);
  const double loss = AccuracyModel::fit(measured(60, 1)).lossOf(half);
  CHECK(AccuracyModel::fit(measured(60, 1)).lossOf(half) == loss);
  CHECK(AccuracyModel::fit(measured(60, 1), {.seed = 7}).lossOf(half) != loss);
}

TEST_CASE("configurations that all lose the same are fitted without a division by zero") {
  std::vector<AccuracySample> samples = measured(10, 3);
  for (AccuracySample &sample : samples)
    sample.loss = 0.25;
  const AccuracyModel model = AccuracyModel::fit(samples);
  CHECK(model.lossOf(std::vector<double>(6, 0.5)) == doctest::Approx(0.25));
  CHECK(model.heldOutR2() == 0);
}

TEST_CASE("more experts never lose more, each saves no more than the one before, and no loss is "
          "negative") {
  const AccuracyModel model = AccuracyModel::fit(measured(60, 1));
  for (size_t layer = 0; layer < 6; ++layer) {
    std::vector<double> inMemory(6, 0.3);
    double before = 1e9, saved = 1e9;
    for (int eighths = 0; eighths <= 8; ++eighths) {
      inMemory[layer] = eighths / 8.0;
      const double loss = model.lossOf(inMemory);
      CHECK(loss <= before);
      if (eighths > 0) {
        CHECK(before - loss <= saved + 1e-12);
        saved = before - loss;
      }
      before = loss;
    }
  }
  CHECK(model.lossOf(std::vector<double>(6, 5.0)) >= 0);
}
