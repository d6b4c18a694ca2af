// The steps that a compilation shows.
#include "compiler/accuracy/SearchCosts.h"

#include "compiler/accuracy/QuickLoss.h"
#include "compiler/calibrate/Calibrate.h"
#include "compiler/commands/SelfText.h"
#include "compiler/pool/ExpertPool.h"

#include <doctest/doctest.h>

using namespace moec;

static std::vector<std::string> labelsOf(const AccurateCompileRequest &request) {
  std::vector<std::string> labels;
  for (const PlannedStep &step : stepsOf(request))
    labels.push_back(step.label);
  return labels;
}

static AccurateCompileRequest selfWritten() {
  AccurateCompileRequest request;
  request.outputPath = "m.moe";
  request.selfTextDocuments = 100;
  return request;
}

TEST_CASE("a compile without a target has no acceptance, and measures its loss last") {
  CHECK(labelsOf(selfWritten()) ==
        std::vector<std::string>{"writing m.moe.work/reference.moe", kWritingCalibration,
                                 kCalibratingExperts, "writing m.moe.work/unmeasured.moe",
                                 kWritingMeasured, kMeasuringLoss});
}

TEST_CASE("a compile that may widen experts quantizes them after the calibration, maybe twice") {
  AccurateCompileRequest request = selfWritten();
  request.isWidthRaised = true;
  CHECK(labelsOf(request) ==
        std::vector<std::string>{"writing m.moe.work/reference.moe", kWritingCalibration,
                                 kCalibrating, kQuantizingExperts,
                                 "writing m.moe.work/unmeasured.moe", kWritingMeasured,
                                 kMeasuringLoss, kQuantizingExperts,
                                 "writing m.moe.work/unmeasured.moe", kMeasuringLoss});
  const std::vector<PlannedStep> steps = stepsOf(request);
  for (size_t i = 0; i < steps.size(); ++i)
    CHECK(steps[i].chance == (i < 7 ? 1 : kChanceOfWider));
}

TEST_CASE("the reference executes what texts do not have its losses of, once") {
  AccurateCompileRequest request = selfWritten();
  request.target = 0.02;
  SearchWork work = usualWork(request, 64, 16, 200, 20, {64, 200});
  CHECK(work.of(SearchPass::kReference).windows == 16); // Rows for divergences.
  CHECK_FALSE(work.testsReference);
  work = usualWork(request, 64, 16, 200, 20, {0, 0});
  CHECK(work.of(SearchPass::kReference).windows == 64 + 200);
  request.metric = moert::LossMetric::kKl;
  work = usualWork(request, 64, 16, 200, 20, {64, 200});
  CHECK(work.of(SearchPass::kReference).windows == 64);
  CHECK(work.testsReference);
}

TEST_CASE("a compile with a target measures losses and accepts") {
  AccurateCompileRequest request = selfWritten();
  request.target = 0.02;
  CHECK(labelsOf(request) == std::vector<std::string>{"writing m.moe.work/reference.moe",
                                                      kWritingCalibration, kWritingAcceptance,
                                                      kCalibratingExperts, kMeasuringLosses,
                                                      "writing m.moe"});
}

TEST_CASE("with a profile alone nothing is executed") {
  AccurateCompileRequest request = selfWritten();
  request.selfTextDocuments = 0;
  request.profilePath = "a.profile";
  CHECK(labelsOf(request) == std::vector<std::string>{kQuantizingExperts, "writing m.moe"});
}
