#include "compiler/emit/StoredArtifact.h"

using namespace moert;

namespace moec {

Result<StoredArtifact> StoredArtifact::open(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(FileSource file, FileSource::open(path));
  MOERT_ASSIGN_OR_RETURN(Artifact artifact, readArtifact(file));
  return StoredArtifact(std::move(file), std::move(artifact));
}

Status StoredArtifact::read(size_t moeLayer, size_t expert, uint64_t offset,
                            std::span<std::byte> out) const {
  const uint64_t first = moeLayer == kResidentRecord
                             ? described.residentOffset
                             : described.moeLayers[moeLayer].experts[expert].fileOffset;
  return file.read(first + offset, out).withContext(file.name());
}

uint64_t StoredArtifact::sliceChecksum(size_t moeLayer, size_t expert, size_t slice) const {
  return moeLayer == kResidentRecord
             ? described.residentChecksum
             : described.moeLayers[moeLayer].experts[expert].slices[slice].checksum;
}

/// The layer without what only writing determines.
static MoeLayer planned(MoeLayer layer) {
  for (Expert &expert : layer.experts)
    for (Slice &slice : expert.slices)
      slice.checksum = 0;
  return layer;
}

Status StoredArtifact::checkFits(const Artifact &other) const {
  const auto refuse = [&](const auto &...found) {
    return invalidInput("the module has ", found..., ", expected those of ", file.name());
  };
  if (other.residents.size() != described.residents.size())
    return refuse(other.residents.size(), " resident weights");
  for (size_t i = 0; i < other.residents.size(); ++i)
    if (other.residents[i] != described.residents[i])
      return refuse("another name, shape or format of the resident weight ",
                    other.residents[i].name);
  if (other.moeLayers.size() != described.moeLayers.size())
    return refuse(other.moeLayers.size(), " layers of experts");
  for (size_t i = 0; i < other.moeLayers.size(); ++i)
    if (planned(other.moeLayers[i]) != planned(described.moeLayers[i]))
      return refuse("other experts, matrices or formats in layer ", other.moeLayers[i].layer);
  return {};
}

} // namespace moec
