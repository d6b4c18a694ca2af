// An artifact as the source of another one's weights, which an emission copies.
#pragma once

#include "compiler/emit/EmitPlan.h"
#include "runtime/format/Reader.h"

#include <cstddef>
#include <string>
#include <vector>

namespace moec {

/// Owns the open file. Several threads may read.
class StoredArtifact final : public RecordSource {
public:
  static moert::Result<StoredArtifact> open(const std::string &path);

  const moert::Artifact &artifact() const { return described; }
  const moert::ByteSource &source() const { return file; }
  moert::Result<std::vector<std::byte>> tokenizerTable() const {
    return moert::readTokenizerTable(file, described);
  }

  moert::Status read(size_t moeLayer, size_t expert, uint64_t offset,
                     std::span<std::byte> out) const override;
  uint64_t sliceChecksum(size_t moeLayer, size_t expert, size_t slice) const override;
  bool hasResidents() const override { return true; }
  moert::Status damaged(const std::string &found) const override {
    return moert::invalidInput(file.name(), ": ", found);
  }

  /// Refuses the description of an artifact whose weights are not these, all of them, each in its
  /// format, in their order. It is laid out.
  moert::Status checkFits(const moert::Artifact &other) const;

private:
  StoredArtifact(moert::FileSource opened, moert::Artifact read)
      : file(std::move(opened)), described(std::move(read)) {}

  moert::FileSource file;
  moert::Artifact described;
};

} // namespace moec
