// A search's measurements so far, on disk: a resumed search repeats its queries, and those already
// measured are answered from this log. It holds what was measured, not what follows from it: a
// bound depends on the level of the compile that asks.
//
//   moec-measurements 3 FINGERPRINT
//   KEY NUMBER... CHECKSUM          16 hexadecimal digits each; the numbers are doubles' bits
//
// A line is written when its measurement is done; a last line without its end counts as absent.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/evaluation/SampleScore.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// Owns nothing but a path between calls. One thread.
class MeasurementLog {
public:
  /// Reads the file's measurements; ignores a file with another fingerprint.
  static MeasurementLog open(const std::string &path, uint64_t fingerprint);

  const std::vector<double> *find(uint64_t key) const;
  moert::Status add(uint64_t key, std::vector<double> numbers);

  /// Scores of windows, as addScores() wrote them. nullopt unless there are `samples` of them.
  std::optional<std::vector<moert::SampleScore>> findScores(uint64_t key, uint64_t samples) const;
  moert::Status addScores(uint64_t key, std::span<const moert::SampleScore> scores);

private:
  moert::Status writeAnew() const;

  std::string path;
  uint64_t fingerprint = 0;
  std::map<uint64_t, std::vector<double>> known;
  bool isOnDisk = false; // The file begins with the fingerprint.
};

} // namespace moec
