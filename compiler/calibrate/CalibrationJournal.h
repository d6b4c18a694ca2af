// What an unfinished calibration has finished: OUT.partial.journal (docs/calibration-profile.md).
// Written as a whole after each segment, when everything that it speaks of is on the disk.
#pragma once

#include "compiler/calibrate/LayerCollector.h"
#include "compiler/profile/ProfileHeader.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moec {

struct CalibrationJournal {
  uint64_t fingerprint = 0;    // Of everything that decides the profile's bytes.
  uint32_t segments = 0;       // Played for all tokens.
  uint64_t stateChecksum = 0;  // Of the states behind them.
  uint32_t finishedLayers = 0; // MoE layers in OUT.partial.
  ProfileHeader header;

  static std::string pathOf(const std::string &outputPath) {
    return outputPath + ".partial.journal";
  }
  friend bool operator==(const CalibrationJournal &, const CalibrationJournal &) = default;
};

std::vector<std::byte> encodeJournal(const CalibrationJournal &journal);
/// Refuses what is not a journal in every detail.
moert::Result<CalibrationJournal> decodeJournal(std::span<const std::byte> bytes);

moert::Status storeJournal(const std::string &outputPath, const CalibrationJournal &journal);
/// nullopt: there is none.
moert::Result<std::optional<CalibrationJournal>> loadJournal(const std::string &outputPath);

} // namespace moec
