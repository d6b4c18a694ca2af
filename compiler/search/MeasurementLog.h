// A search's measurements so far, on disk: a resumed search repeats its queries, and those already
// measured are answered from this log. It holds what was measured, not what follows from it: a
// bound depends on the level of the compile that asks.
#pragma once

#include "compiler/session/AppendLog.h"
#include "runtime/base/Status.h"
#include "runtime/evaluation/SampleScore.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// One thread.
class MeasurementLog {
public:
  /// Reads the measurements of `path`; those of another fingerprint are not there.
  MeasurementLog(std::string path, uint64_t fingerprint);

  const std::vector<double> *find(uint64_t key) const;
  /// The last measurement of a key counts.
  moert::Status add(uint64_t key, std::vector<double> numbers);

  /// Scores of windows, as addScores() wrote them. nullopt unless there are `samples` of them.
  std::optional<std::vector<moert::SampleScore>> findScores(uint64_t key, uint64_t samples) const;
  moert::Status addScores(uint64_t key, std::span<const moert::SampleScore> scores);

private:
  AppendLog log; // Lines: the key, then the bits of the numbers.
  std::map<uint64_t, std::vector<double>> known;
};

} // namespace moec
