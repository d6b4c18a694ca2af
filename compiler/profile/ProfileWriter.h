// Writes a calibration profile layer by layer in little memory. The file is written whole or not at
// all; an interrupted one can be resumed.
#pragma once

#include "compiler/profile/ProfileHeader.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/OutputFile.h"

#include <optional>
#include <span>
#include <string>

namespace moec {

/// For one thread. Calls, layer by layer: for a MoE layer appendRows() until all tokens are
/// written, then finishLayer(); then appendMoments() for each resident input of the layer; finally
/// commit(). keep() leaves OUT.partial for a later resume().
class ProfileWriter {
public:
  /// info.moeLayers must not have counts yet.
  static moert::Result<ProfileWriter> create(const std::string &outputPath, CalibrationInfo info);
  /// `header` is the result of header() after that many layers and inputs and a sync().
  static moert::Result<ProfileWriter> resume(const std::string &outputPath, ProfileHeader header,
                                             size_t finishedLayers, size_t finishedInputs);

  /// The content so far.
  const ProfileHeader &header() const { return content; }
  size_t finishedLayers() const { return layer; }
  size_t finishedInputs() const { return input; }

  /// Appends any number of rows of the layer's width. Refuses values that are not finite.
  moert::Status appendRows(std::span<const float> rows);
  /// Also computes the layer's counts.
  moert::Status finishLayer(const LayerTrace &trace);
  /// The next resident input's. Refuses values that are not finite in f32.
  moert::Status appendMoments(const Moments &moments);
  /// When this returns, all finished layers are on the disk.
  moert::Status sync() { return file.sync(); }
  /// What is finished and synced, for reading.
  moert::Result<std::unique_ptr<CalibrationProfile>> unfinished() const {
    return CalibrationProfile::openUnfinished(file.partial(), content);
  }
  /// Gives back the disk of a finished layer's rows, which nothing will read any more.
  void dropRows(size_t moeLayer) {
    file.drop(layout.layers[moeLayer].rowsOffset, layout.layers[moeLayer].rowsBytes);
  }
  moert::Status commit();
  void keep() { file.keep(); }

  /// Memory used besides the caller's rows and trace.
  static uint64_t memoryBytes(const CalibrationInfo &info);

private:
  ProfileWriter(moert::OutputFile partial, ProfileHeader header, ProfileLayout places,
                size_t finishedLayers, size_t finishedInputs);
  moert::Status append(std::span<const std::byte> bytes);
  moert::Status endSection(uint64_t offset, uint64_t &checksumOut);

  moert::OutputFile file;
  ProfileHeader content;
  ProfileLayout layout;
  size_t layer = 0;               // The MoE layer being written.
  size_t input = 0;               // The next resident input.
  std::vector<int16_t> exponents; // One per row of the layer so far.
  std::vector<uint16_t> halves;   // One row.
  moert::ChecksumStream checksum; // Over the section so far.
};

} // namespace moec
