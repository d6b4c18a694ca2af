// The progress of an unfinished calibration: OUT.partial.journal (docs/calibration-profile.md).
// Rewritten after each segment, when everything that it lists is on the disk.
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
  uint64_t fingerprint = 0;    // Covers everything that determines the profile's bytes.
  uint32_t segments = 0;       // Finished for all tokens.
  uint64_t stateChecksum = 0;  // Checksum of the states after them.
  uint32_t finishedLayers = 0; // MoE layers in OUT.partial.
  uint32_t finishedInputs = 0; // Resident inputs there.
  ProfileHeader header;

  static std::string pathOf(const std::string &outputPath) {
    return outputPath + ".partial.journal";
  }
  friend bool operator==(const CalibrationJournal &, const CalibrationJournal &) = default;
};

std::vector<std::byte> encodeJournal(const CalibrationJournal &journal);
/// Refuses bytes that are not a complete, valid journal.
moert::Result<CalibrationJournal> decodeJournal(std::span<const std::byte> bytes);

moert::Status storeJournal(const std::string &outputPath, const CalibrationJournal &journal);
/// nullopt: there is no journal.
moert::Result<std::optional<CalibrationJournal>> loadJournal(const std::string &outputPath);

} // namespace moec
