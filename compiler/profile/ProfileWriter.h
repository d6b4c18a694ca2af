// Writes a calibration profile, layer after layer, in little memory. The file is there whole or not
// at all; what was written before an interruption can be gone on with.
#pragma once

#include "compiler/profile/ProfileHeader.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"

#include <optional>
#include <span>
#include <string>

namespace moec {

/// One thread. Calls: for each MoE layer appendRows() until all tokens are there, then
/// finishLayer(); at last commit(). keep() lets OUT.partial stay for a later resume().
class ProfileWriter {
public:
  /// info.moeLayers as yet without counts.
  static moert::Result<ProfileWriter> create(const std::string &outputPath, CalibrationInfo info);
  /// `header` is what header() gave after so many layers and a sync().
  static moert::Result<ProfileWriter> resume(const std::string &outputPath, ProfileHeader header,
                                             size_t finishedLayers);

  /// What is known so far.
  const ProfileHeader &header() const { return content; }
  size_t finishedLayers() const { return layer; }

  /// Any number of rows [hiddenSize]. Refuses values that are not finite.
  moert::Status appendRows(std::span<const float> rows);
  /// Counts are worked out here.
  moert::Status finishLayer(const LayerTrace &trace);
  /// All finished layers are on the disk when this returns.
  moert::Status sync() { return file.sync(); }
  moert::Status commit();
  void keep() { file.keep(); }

  /// Held beside the caller's rows and trace.
  static uint64_t memoryBytes(const CalibrationInfo &info);

private:
  ProfileWriter(moert::OutputFile partial, ProfileHeader header, ProfileLayout places,
                size_t finished);
  moert::Status append(std::span<const std::byte> bytes);
  moert::Status endSection(uint64_t offset, uint64_t &checksumOut);

  moert::OutputFile file;
  ProfileHeader content;
  ProfileLayout layout;
  size_t layer = 0;               // Being written.
  std::vector<int16_t> exponents; // Of its rows so far.
  std::vector<uint16_t> halves;   // One row.
  moert::ChecksumStream checksum; // Of the section so far.
};

} // namespace moec
