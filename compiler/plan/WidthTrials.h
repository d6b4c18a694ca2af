// What a search for widths has measured so far, what of it meets the threshold, and how many
// measurements are left. Which assignment is worth the next one is decided elsewhere:
// WidthSearch.cpp, WidthProbes.h, WidthChallenges.h.
#pragma once

#include "compiler/plan/WidthSearch.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace moec {

/// Closer than this the bytes of two assignments, or their times, are the same for any use.
constexpr double kCostTolerance = 0.01;

/// A fraction of a token's time that nothing is given up for.
constexpr double kSameTokenTime = 0.002;

/// Belongs to one search, which outlives neither the input nor the judge; one thread.
///
/// Every measured assignment is there once, in the order in which it was done; the uniform ones are
/// called so, whoever proposed them. Pointers into it hold until the next measurement.
class WidthTrials {
public:
  WidthTrials(const WidthSearchInput &searched, WidthJudge &measuring)
      : given(searched), judge(measuring),
        mostBound(searched.firstThreshold.value_or(searched.target)) {}

  const WidthSearchInput &input() const { return given; }
  bool canMeasure() const { return measurementCount < given.maxMeasurements; }
  uint32_t measurements() const { return measurementCount; }
  const std::vector<MeasuredWidths> &measured() const { return trials; }

  /// The most that a predicted bound may be. At first the target, or the first threshold.
  double threshold() const { return mostBound; }
  void setThreshold(double threshold) { mostBound = threshold; }
  bool meets(const MeasuredWidths &widths) const {
    return widths.measurement.predictedBound <= mostBound;
  }

  /// Measures, or finds what was measured before. False: no measurements are left.
  moert::Result<bool> measure(const std::string &solver, const WidthAssignment &assignment,
                              double limit = std::numeric_limits<double>::quiet_NaN());
  /// Null: it was not measured.
  const MeasuredWidths *find(const WidthAssignment &assignment) const;
  /// The divergence on a few windows; one of the measurements.
  moert::Result<double> probe(const WidthAssignment &assignment);

  /// From now on time decides which is the cheapest; also between what was measured before.
  moert::Status beginTiming(WidthTimes &clock);
  bool isTimed() const { return times != nullptr; }

  /// The cheapest that meets the threshold and may be taken; of about equal ones the simplest,
  /// which is uniform. Cheap is what has few bytes; once there are times, what takes little time,
  /// and of about equal times few bytes. Null: none does.
  const MeasuredWidths *cheapest() const;
  /// The same by bytes, of all but what was proposed by seconds.
  const MeasuredWidths *fewestBytes() const;
  /// Whether one of two is cheaper by enough to be worth an acceptance test.
  bool isClearlyCheaper(const MeasuredWidths &one, const MeasuredWidths &other) const;
  /// The smallest predicted bound of those that may be taken, and the most bits among bounds that
  /// are within a standard error of it. Null: nothing may be.
  const MeasuredWidths *safest() const;

  double costOf(const WidthAssignment &assignment) const {
    return totalsOf(given.problem, assignment).cost;
  }
  /// The widths that uniform assignments can have, descending.
  std::vector<double> uniformWidths() const;
  /// The most bits and the whole widths below them, descending: one width for all matrices.
  std::vector<double> wholeWidths() const;
  /// All items but the directly probed ones at a width; those as `others` has them.
  WidthAssignment uniform(double bits, const WidthAssignment &others) const;
  /// The directly probed items as `others` has them.
  void keepOthers(WidthAssignment &assignment, const WidthAssignment &others) const;
  /// What uniform widths and EdgeMoE's are measured beside before anything else is known.
  WidthAssignment firstOthers() const;

private:
  bool isUniform(const WidthAssignment &assignment) const;
  bool mayTake(const MeasuredWidths &widths) const;
  std::vector<const MeasuredWidths *> takeable() const;

  const WidthSearchInput &given;
  WidthJudge &judge;
  WidthTimes *times = nullptr;
  double mostBound;
  uint32_t measurementCount = 0;
  std::vector<MeasuredWidths> trials;
};

} // namespace moec
