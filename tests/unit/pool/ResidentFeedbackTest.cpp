// The factors of resident matrices come from the profile's moments of their inputs.
#include "compiler/pool/ResidentFeedback.h"

#include "compiler/quantize/FittedMatrix.h"
#include "runtime/format/Reader.h"
#include "tests/unit/profile/TinyProfile.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

namespace {

struct ProfileOfResidents {
  std::vector<std::byte> file = tinyProfile();
  MemorySource source{"tiny.profile", file};
  std::unique_ptr<CalibrationProfile> profile = CalibrationProfile::open(source).value();
  ResidentFeedback feedback{*profile};

  std::shared_ptr<const Feedback> of(const std::string &weight, bool hasHadamard) const {
    auto found = feedback.feedbackFor(weight, hasHadamard);
    REQUIRE_MESSAGE(found.isOk(), found.status().message());
    return *found;
  }
};

} // namespace

TEST_CASE_FIXTURE(ProfileOfResidents, "factors are those of the input's moments, shrunk") {
  const Moments moments = tinyMoments(tinyProfileInfo(), 2); // 40 inputs, 12 tokens.
  for (bool hasHadamard : {false, true}) {
    auto expected =
        fittedFeedback(shrinkToDiagonal(moments, 12.0 / (12 + 20)), hasHadamard, bestIsa());
    REQUIRE(expected.isOk());
    CHECK(of("layer1.output", hasHadamard)->pivots == expected->pivots);
  }
}

TEST_CASE_FIXTURE(ProfileOfResidents, "matrices of one input share its factors") {
  CHECK(of("layer0.query", true) == of("layer0.key", true));
  CHECK(of("layer0.query", true) != of("layer0.key", false));
}

TEST_CASE_FIXTURE(ProfileOfResidents, "a matrix whose input was not observed has none") {
  CHECK(of("embedding", false) == nullptr);
}
