// Measurements in a file: they survive a round trip, and are refused where a number is not finite
// or lists do not match.
#include "runtime/format/Manifest.h"
#include "runtime/format/Reader.h"
#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <limits>

using namespace moert;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

static Result<Artifact> readWith(const Measured &measured) {
  Artifact artifact = tinyArtifact();
  artifact.measured = measured;
  std::vector<std::byte> file = fileOf(artifact);
  return readArtifact(MemorySource("tiny.moe", file));
}

namespace {

struct Change {
  const char *what;
  std::function<void(Measured &)> apply;
  const char *message = ""; // Part of the message if refused.
};

} // namespace

static void checkAllRefused(const std::vector<Change> &changes,
                            const Measured &unchanged = tinyMeasured()) {
  for (const Change &change : changes) {
    Measured measured = unchanged;
    change.apply(measured);
    auto read = readWith(measured);
    REQUIRE_MESSAGE(!read.isOk(), change.what);
    const std::string &message = read.status().message();
    CHECK_MESSAGE(message.rfind("tiny.moe: measured: ", 0) == 0, message);
    CHECK_MESSAGE(message.find(change.message) != std::string::npos, change.what, ": ", message);
  }
}

TEST_CASE("measurements survive a round trip") {
  auto read = readWith(tinyMeasured());
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(read->measured == tinyMeasured());
}

TEST_CASE("a quantile survives a round trip, with a target and without") {
  for (const std::optional<double> target : {std::optional<double>(), std::optional(0.03)}) {
    Measured measured = tinyMeasured();
    measured.target = target ? 0 : measured.target; // The quantile alone has one.
    measured.quantile = {0.9, 0.0225, target};
    auto read = readWith(measured);
    REQUIRE_MESSAGE(read.isOk(), read.status().message());
    CHECK(read->measured == measured);
  }
}

TEST_CASE("a quantile that states nothing is refused, and so is one of items") {
  const auto with = [](double fraction, double bound, double target) {
    return [=](Measured &m) { m.quantile = {fraction, bound, target}; };
  };
  checkAllRefused(
      {{"no units", with(0, 0.02, 0.03),
        "the quantile's fraction is 0, expected more than 0 and less than 1"},
       {"all units", with(1, 0.02, 0.03), "the quantile's fraction is 1"},
       {"a fraction that is no number", with(kNan, 0.02, 0.03), "quantile: fraction is nan"},
       {"no bound", with(0.9, kInfinity, 0.03), "quantile: upper_bound is inf"},
       {"a target that is no number", with(0.9, 0.02, kNan), "quantile: target is nan"},
       {"no allowed loss", with(0.9, 0.02, 0),
        "the quantile's target is 0, expected more than 0"}});
  checkAllRefused({{"items", with(0.9, 0.02, 0.03), "a quantile of items, expected none"}},
                  tinyMeasuredOnItems());
}

TEST_CASE("measurements on items survive a round trip") {
  auto read = readWith(tinyMeasuredOnItems());
  REQUIRE_MESSAGE(read.isOk(), read.status().message());
  CHECK(read->measured == tinyMeasuredOnItems());
}

TEST_CASE("fields of items in measurements on windows are refused, and the reverse") {
  checkAllRefused(
      {
          {"items set aside", [](Measured &m) { m.isSetAside = true; },
           "items that are set aside from the calibration texts"},
          {"losses of windows",
           [](Measured &m) {
             m.acceptanceTexts[0].referenceNats = {1, 1, 1};
           },
           "acceptance_texts 0: 3 losses of the reference, expected none for items"},
          {"one point too few",
           [](Measured &m) { m.acceptanceTexts[0].referencePoints.pop_back(); },
           "acceptance_texts 0: 3 scored items and 2 points of the reference, expected as many"},
          {"an item twice", [](Measured &m) { m.acceptanceTexts[0].windows[1] = 0; },
           "item 0 follows 0, expected ascending items"},
          {"more than a whole point",
           [](Measured &m) { m.acceptanceTexts[0].referencePoints[0] = 1.5; },
           "reference_points is 1.5, expected 0 to 1"},
          {"a negative point", [](Measured &m) { m.acceptanceTexts[0].referencePoints[1] = -1; },
           "reference_points is -1, expected 0 to 1"},
          {"a point that is not a number",
           [](Measured &m) { m.acceptanceTexts[0].referencePoints[1] = kNan; },
           "reference_points is nan"},
          {"points of a calibration text",
           [](Measured &m) { m.calibrationTexts[0].referencePoints = {1}; },
           "calibration_texts 0: 0 scored windows and 1 losses, expected none"},
          {"nothing scored",
           [](Measured &m) { m.acceptanceTexts.erase(m.acceptanceTexts.begin()); },
           "no item of an acceptance text was scored, expected at least 1"},
          {"an option with a line break", [](Measured &m) { m.itemOptions[1].second = "a\nb"; },
           "item_options is not plain UTF-8"},
          {"an option whose name is not UTF-8",
           [](Measured &m) { m.itemOptions[0].first = "\xc3("; },
           "item_options is not plain UTF-8"},
      },
      tinyMeasuredOnItems());
  checkAllRefused({
      {"points of windows",
       [](Measured &m) {
         m.acceptanceTexts[0].referencePoints = {1, 1, 1};
       },
       "acceptance_texts 0: 3 points of the reference, expected none for windows"},
      {"a loss of a calibration text", [](Measured &m) { m.calibrationTexts[0].loss = 0.5; },
       "calibration_texts 0: a measured loss, expected none"},
      {"a loss of a text without end", [](Measured &m) { m.acceptanceTexts[0].loss = kNan; },
       "acceptance_texts 0: loss is nan"},
      {"a negative spread", [](Measured &m) { m.acceptanceTexts[0].unitSpread = -1; },
       "acceptance_texts 0: unit_spread is -1"},
      {"more units than windows", [](Measured &m) { m.acceptanceTexts[0].units = 4; },
       "acceptance_texts 0: 4 units in 3 samples of the text"},
      {"a candidate of too many bytes",
       [](Measured &m) { m.candidates[1].expertBytes = UINT64_MAX - 511; },
       "candidates 1: 18446744073709551104 bytes of experts and 512 resident ones, expected at "
       "most "
       "2^64 - 1 together"},
      {"a candidate without a divergence", [](Measured &m) { m.candidates[1].klNats = kNan; },
       "candidates 1: kl_nats is nan"},
      {"a candidate without a loss", [](Measured &m) { m.candidates[0].loss = kNan; },
       "candidates 0: loss is nan"},
      {"a candidate without a bound", [](Measured &m) { m.candidates[0].expectedBound = kNan; },
       "candidates 0: expected_bound is nan"},
      {"a candidate that takes no time", [](Measured &m) { m.candidates[1].tokenNs = -1; },
       "candidates 1: token_ns is -1, expected at least 0"},
      {"a candidate with a line break", [](Measured &m) { m.candidates[0].solver = "a\nb"; },
       "candidates 0: solver"},
      {"two chosen candidates", [](Measured &m) { m.candidates[0].isChosen = true; },
       "2 candidates that were chosen, expected at most 1"},
      {"options of items",
       [](Measured &m) {
         m.itemOptions = {{"max-tokens", "128"}};
       },
       "1 options of items, expected none for windows"},
  });
}

TEST_CASE("a file without measurements has none") {
  Artifact artifact = tinyArtifact();
  std::vector<std::byte> file = fileOf(artifact);
  auto read = readArtifact(MemorySource("tiny.moe", file));
  REQUIRE(read.isOk());
  CHECK_FALSE(read->measured);
}

TEST_CASE("numbers at the ends of their ranges are read") {
  for (const Change &change : std::vector<Change>{
           {"no loss allowed", [](Measured &m) { m.target = 0; }},
           {"better than the reference", [](Measured &m) { m.loss = m.upperBound = -0.01; }},
           {"a divergence that rounding made negative", [](Measured &m) { m.klNats = -1e-18; }},
           {"never the same token", [](Measured &m) { m.topDisagreement = 1; }},
           {"the highest confidence", [](Measured &m) { m.confidence = 0.9999; }},
           {"units that all lose the same", [](Measured &m) { m.unitSpread = 0; }},
           {"windows as long as the positions", [](Measured &m) { m.windowTokens = 128; }},
           {"no calibration texts", [](Measured &m) { m.calibrationTexts.clear(); }},
           {"a certain reference", [](Measured &m) { m.acceptanceTexts[0].referenceNats[0] = 0; }},
           {"the last window that can be counted",
            [](Measured &m) { m.acceptanceTexts[0].windows[2] = UINT32_MAX; }}}) {
    Measured measured = tinyMeasured();
    change.apply(measured);
    auto read = readWith(measured);
    CHECK_MESSAGE(read.isOk(), change.what, ": ", read.status().message());
  }
}

TEST_CASE("numbers that are not finite, or outside of their ranges, are refused") {
  checkAllRefused({
      {"no metric", [](Measured &m) { m.metric.clear(); }, "the metric is empty"},
      {"a metric that clears the screen", [](Measured &m) { m.metric = "\x1b[2J"; },
       "metric is not plain UTF-8"},
      {"a solver that is not UTF-8", [](Measured &m) { m.solver = "\xc3("; },
       "solver is not plain UTF-8"},
      {"a quantizer with a line break", [](Measured &m) { m.quantizer = "a\nb"; },
       "quantizer is not plain UTF-8"},
      {"a target that is not a number", [](Measured &m) { m.target = kNan; },
       "measured: target is nan, expected a finite number"},
      {"a negative target", [](Measured &m) { m.target = -0.5; },
       "measured: target is -0.5, expected at least 0"},
      {"a loss that is not a number", [](Measured &m) { m.loss = kNan; }, "measured: loss is nan"},
      {"an infinite bound", [](Measured &m) { m.upperBound = kInfinity; },
       "upper_bound is inf, expected a finite number"},
      {"an infinite divergence", [](Measured &m) { m.klNats = kInfinity; }, "kl_nats is inf"},
      {"a negative fraction", [](Measured &m) { m.topDisagreement = -0.25; },
       "top_disagreement is -0.25, expected 0 to 1"},
      {"a fraction above 1", [](Measured &m) { m.topDisagreement = 1.5; },
       "top_disagreement is 1.5, expected 0 to 1"},
      {"a confidence that no bound has", [](Measured &m) { m.confidence = 0.5; },
       "confidence is 0.5, expected 0.9 to 0.9999"},
      {"certainty", [](Measured &m) { m.confidence = 1; },
       "confidence is 1, expected 0.9 to 0.9999"},
      {"a confidence that is no number", [](Measured &m) { m.confidence = kNan; },
       "confidence is nan, expected a finite number"},
      {"a negative spread", [](Measured &m) { m.unitSpread = -0.5; },
       "unit_spread is -0.5, expected at least 0"},
      {"windows of one token", [](Measured &m) { m.windowTokens = 1; },
       "window_tokens is 1, expected 2 to 128"},
      {"windows beyond the positions", [](Measured &m) { m.windowTokens = 129; },
       "window_tokens is 129, expected 2 to 128"},
  });
}

TEST_CASE("texts whose lists do not match are refused") {
  checkAllRefused({
      {"no name", [](Measured &m) { m.calibrationTexts[1].name.clear(); },
       "calibration_texts 1: the name '' is empty or has a '/'"},
      {"a directory", [](Measured &m) { m.acceptanceTexts[1].name = "home/two.txt"; },
       "acceptance_texts 1: the name 'home/two.txt' is empty or has a '/'"},
      {"a name with a line break", [](Measured &m) { m.acceptanceTexts[0].name = "a\nb"; },
       "acceptance_texts 0: name is not plain UTF-8"},
      {"scored windows of calibration", [](Measured &m) { m.calibrationTexts[0].windows = {1}; },
       "calibration_texts 0: 1 scored windows and 0 losses, expected none"},
      {"losses of calibration", [](Measured &m) { m.calibrationTexts[0].referenceNats = {1}; },
       "calibration_texts 0: 0 scored windows and 1 losses, expected none"},
      {"one loss too few", [](Measured &m) { m.acceptanceTexts[0].referenceNats.pop_back(); },
       "acceptance_texts 0: 3 scored windows and 2 losses of the reference, expected as many"},
      {"a window twice", [](Measured &m) { m.acceptanceTexts[0].windows[1] = 0; },
       "window 0 follows 0, expected ascending windows"},
      {"windows that descend", [](Measured &m) { m.acceptanceTexts[0].windows[2] = 1; },
       "window 1 follows 2, expected ascending windows"},
      {"a loss that is not a number",
       [](Measured &m) { m.acceptanceTexts[0].referenceNats[1] = kNan; },
       "acceptance_texts 0: reference_nats is nan"},
      {"a negative loss", [](Measured &m) { m.acceptanceTexts[0].referenceNats[1] = -1; },
       "reference_nats is -1, expected at least 0"},
      {"nothing scored", [](Measured &m) { m.acceptanceTexts.erase(m.acceptanceTexts.begin()); },
       "no window of an acceptance text was scored, expected at least 1"},
  });
}

static std::vector<std::byte> tinyManifest() {
  Artifact artifact = tinyArtifact();
  artifact.measured = tinyMeasured();
  return encodeManifest(artifact);
}

static std::string decodingOf(std::span<const std::byte> manifest) {
  std::vector<uint64_t> aligned(manifest.size() / 8 + 1); // Aligned like a section.
  std::memcpy(aligned.data(), manifest.data(), manifest.size());
  Artifact artifact;
  return decodeManifest(std::as_bytes(std::span(aligned)).first(manifest.size()), artifact)
      .message();
}

TEST_CASE("a flag that is neither 0 nor 1 is refused") {
  std::vector<std::byte> manifest = tinyManifest();
  size_t refused = 0;
  for (std::byte &byte : manifest) {
    if (byte != std::byte(1))
      continue;
    byte = std::byte(2);
    refused += decodingOf(manifest) == "measured: is_set_aside is 2, expected 0 or 1";
    byte = std::byte(1);
  }
  CHECK(refused == 1);
}

TEST_CASE("windows of 0 tokens without item scores are refused") {
  Measured measured = tinyMeasured();
  measured.windowTokens = 0;
  const Status status = readWith(measured).status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find("measured: ") != std::string::npos);
}

TEST_CASE("losses at a misaligned address are refused") {
  std::vector<std::byte> manifest = tinyManifest();
  auto word = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, &manifest[at], sizeof(value));
    return value;
  };
  auto setWord = [&](size_t at, uint32_t value) {
    std::memcpy(&manifest[at], &value, sizeof(value));
  };
  constexpr double kFirst = 100.5;
  size_t first = 0;
  while (std::memcmp(&manifest[first], &kFirst, sizeof(kFirst)) != 0)
    first += sizeof(kFirst);
  // The length precedes the first element; every offset to it now refers to 4 bytes after it, where
  // there is a length of 1.
  for (size_t at = 0; at < first; at += 4)
    if (word(at) == first - 4 - at)
      setWord(at, word(at) + 4);
  setWord(first, 1);
  CHECK(decodingOf(manifest) ==
        "measured: acceptance_texts 0: numbers lie at an address that is not a "
        "multiple of 8");
}
