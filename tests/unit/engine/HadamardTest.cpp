// Experts that store the Hadamard transform of their rows compute what the rows themselves do.
#include "tests/unit/engine/EngineFixture.h"

#include <cmath>
#include <doctest/doctest.h>

using namespace moert;
using namespace moert::test;

namespace {

struct Run : Recorder {
  explicit Run(const SyntheticOptions &model) {
    TemporaryArtifact artifact(model);
    Loaded loaded = load(artifact.path, baseOptions());
    Status done =
        loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kAll}, *this);
    REQUIRE_MESSAGE(done.isOk(), done.message());
  }
  void onRoute(Session &, uint32_t, uint32_t, std::span<const int32_t> chosen,
               std::span<const float>) override {
    experts.insert(experts.end(), chosen.begin(), chosen.end());
  }
};

/// The root of the mean square of the differences, relative to that of the expected values.
double relativeError(const std::vector<float> &found, const std::vector<float> &expected) {
  REQUIRE(found.size() == expected.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    difference += std::pow(double(found[i]) - expected[i], 2);
    size += std::pow(double(expected[i]), 2);
  }
  return std::sqrt(difference / size);
}

} // namespace

// The inputs of a product are rounded to multiples of 1/127 of the largest value of their group,
// with a mean error of 1/sqrt(12) of such a step. That value is at most sqrt(32) times the group's
// root mean square. An expert computes three products, each with this error at most.
static const double kTolerance = 3 * std::sqrt(32.0) / 127 / std::sqrt(12.0);

TEST_CASE("experts with the Hadamard transform compute what their weights do without it") {
  for (uint32_t hidden : {64u, 72u}) { // Blocks of 64 and of 8; down's 48 inputs are blocks of 16.
    CAPTURE(hidden);
    SyntheticOptions model = {.experts = WeightKind::kInt8, .residents = WeightKind::kF32};
    model.hidden = hidden;
    const Run codes(model);
    model.hasHadamard = true;
    const Run transformed(model);
    model.experts = WeightKind::kF32;
    model.hasValuesOfInt8 = true;
    const Run floats(model);
    // A choice that rounding changes would be an error of another kind. These models have none.
    CHECK(transformed.experts == floats.experts);
    CHECK(relativeError(transformed.logits, floats.logits) < kTolerance);
    // The same codes without the transform are another model.
    CHECK(relativeError(codes.logits, floats.logits) > 10 * kTolerance);
  }
}
