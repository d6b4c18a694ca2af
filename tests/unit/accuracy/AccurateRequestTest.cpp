#include "compiler/accuracy/AccurateRequest.h"
#include "tests/unit/emit/TinyPlan.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>

using namespace moec;
using namespace moert;

namespace {

/// A valid request whose files exist.
struct RequestFixture {
  RequestFixture() {
    request.checkpointDirectory = directory.path("checkpoint");
    request.outputPath = directory.path("out.moe");
    request.target = 0.02;
    request.calibrationTexts = {file("calibration.txt")};
    request.acceptanceTexts = {file("acceptance.txt")};
  }

  std::string file(const std::string &name) const {
    std::ofstream(directory.path(name)) << name;
    return directory.path(name);
  }

  void checkRefused(const std::string &mention) const {
    Status status = checkAccurateRequest(request);
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK_MESSAGE(status.message().find(mention) != std::string::npos, status.message());
  }

  TemporaryDirectory directory;
  AccurateCompileRequest request;
};

} // namespace

TEST_CASE_FIXTURE(RequestFixture, "a target with texts for both is accepted") {
  CHECK(checkAccurateRequest(request).isOk());
}

TEST_CASE_FIXTURE(RequestFixture, "a target with one kind of text is accepted") {
  request.acceptanceTexts.clear();
  CHECK(checkAccurateRequest(request).isOk());
}

TEST_CASE_FIXTURE(RequestFixture, "a profile stands in for texts") {
  request.profilePath = file("profile");
  request.calibrationTexts.clear();
  CHECK(checkAccurateRequest(request).isOk());
}

TEST_CASE_FIXTURE(RequestFixture, "a profile alone serves a quantizer, and no target") {
  request.profilePath = file("profile");
  request.calibrationTexts.clear();
  request.acceptanceTexts.clear();
  checkRefused("needs --eval-text");
  request.target.reset();
  CHECK(checkAccurateRequest(request).isOk());
}

TEST_CASE_FIXTURE(RequestFixture, "missing calibration input is refused where it is needed") {
  request.calibrationTexts.clear();
  checkRefused("--accuracy-loss needs text: --self-text 400 lets the checkpoint write it");
  request.target.reset();
  request.method = QuantizeMethod::kHqq;
  checkRefused("--quantizer hqq needs --calibration-text, --self-text or --calibration");
}

TEST_CASE_FIXTURE(RequestFixture, "self-written documents stand in for what has no text") {
  request.selfTextDocuments = 40;
  checkRefused("--self-text beside texts or a profile for everything");
  request.acceptanceTexts.clear();
  CHECK_FALSE(calibratesOnSelfText(request));
  CHECK(acceptsOnSelfText(request));
  CHECK(checkAccurateRequest(request).isOk());
  request.calibrationTexts.clear();
  request.selfTextDocuments = 100;
  CHECK(calibratesOnSelfText(request));
  CHECK(checkAccurateRequest(request).isOk());
}

TEST_CASE_FIXTURE(RequestFixture,
                  "fewer self-written documents than an acceptance needs are refused") {
  request.acceptanceTexts.clear();
  request.selfTextDocuments = 19;
  checkRefused("--self-text 19, expected --self-text 20 or more: the acceptance needs 20 "
               "documents. Hundreds");
  request.selfTextDocuments = 39;
  CHECK(checkAccurateRequest(request).isOk());
  request.calibrationTexts.clear();
  request.calibrationTokens = 4 * 512;
  checkRefused("--self-text 39, expected --self-text 40 or more");
  request.selfTextDocuments = 40;
  CHECK(checkAccurateRequest(request).isOk());
}

TEST_CASE_FIXTURE(RequestFixture,
                  "fewer self-written documents than calibration and search need are refused") {
  // 32 windows of calibration and 10 of the search are the larger half of 83.
  request.calibrationTexts.clear();
  request.acceptanceTexts.clear();
  request.selfTextDocuments = 82;
  checkRefused("--self-text 82, expected --self-text 83 or more: the acceptance needs 20 "
               "documents, half of all; calibration reads 32, and the search needs 10 others");
  request.selfTextDocuments = 83;
  CHECK(checkAccurateRequest(request).isOk());
  // With an acceptance text all of them are for calibration and search.
  request.acceptanceTexts = {file("acceptance.txt")};
  request.selfTextDocuments = 41;
  checkRefused("--self-text 41, expected --self-text 42 or more: calibration reads 32");
  request.selfTextDocuments = 42;
  CHECK(checkAccurateRequest(request).isOk());
  // A quantizer alone searches nothing.
  request.target.reset();
  request.selfTextDocuments = 1;
  CHECK(checkAccurateRequest(request).isOk());
}

TEST_CASE_FIXTURE(RequestFixture,
                  "no more documents are written than calibration and search read") {
  request.calibrationTexts.clear();
  request.acceptanceTexts.clear();
  request.selfTextDocuments = 400; // 32 windows, and 48 with a quarter more.
  CHECK(selfWrittenOf(request).calibrated == 32 + 60);
  CHECK(selfWrittenOf(request).accepted == 200);
  request.selfTextDocuments = 100;
  CHECK(selfWrittenOf(request).calibrated == 50);
  request.selfTextDocuments = 1000; // Where most documents repeat others, a larger number helps.
  CHECK(selfWrittenOf(request).calibrated == 200);
  request.target.reset();
  CHECK(selfWrittenOf(request).calibrated == 1000);
}

TEST_CASE_FIXTURE(RequestFixture, "targets of zero and targets that are too large are refused") {
  for (double target : {0.0, -0.1, 101.0, std::numeric_limits<double>::quiet_NaN()}) {
    request.target = target;
    checkRefused("expected more than 0");
  }
}

TEST_CASE_FIXTURE(RequestFixture, "metrics of items need items, which texts cannot give") {
  for (LossMetric metric : {LossMetric::kChoice, LossMetric::kRouge2, LossMetric::kExact}) {
    request.metric = metric;
    request.acceptanceTexts = {file("items.jsonl")};
    CHECK(checkAccurateRequest(request).isOk());
    request.acceptanceTexts.clear();
    checkRefused("needs --eval-text: its items");
  }
}

TEST_CASE_FIXTURE(RequestFixture, "a loss of all points is no target") {
  request.target = 1;
  CHECK(checkAccurateRequest(request).isOk());
  request.metric = LossMetric::kChoice;
  checkRefused("expected less than 100%");
}

TEST_CASE_FIXTURE(RequestFixture, "calibration texts that cannot be read twice are refused") {
  for (const char *path : {"-", "/dev/null"}) {
    request.calibrationTexts = {path};
    checkRefused("no regular file");
  }
}

TEST_CASE_FIXTURE(RequestFixture, "an output that would replace an input is refused") {
  for (const std::string &input : {request.calibrationTexts[0], request.acceptanceTexts[0]}) {
    request.outputPath = input;
    checkRefused("would replace");
  }
}

TEST_CASE("a target is possible up to 10,000%, of items below all points") {
  using moert::LossMetric;
  CHECK(isPossibleTarget(100, LossMetric::kPerplexity));
  CHECK(!isPossibleTarget(100.1, LossMetric::kPerplexity)); // A bound that no target can ask for.
  CHECK(!isPossibleTarget(0, LossMetric::kKl));
  CHECK(isPossibleTarget(0.99, LossMetric::kChoice));
  CHECK(!isPossibleTarget(1, LossMetric::kChoice));
}

TEST_CASE_FIXTURE(RequestFixture, "a profile in the work directory is refused") {
  std::filesystem::create_directory(directory.path("out.moe.work"));
  request.profilePath = file("out.moe.work/calibration.profile");
  checkRefused("removed at the end");
}
