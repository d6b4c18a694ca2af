#include "compiler/planning/CheckpointMark.h"

#include "runtime/base/Checksum.h"

#include <algorithm>
#include <optional>
#include <utility>

using namespace moert;

namespace moec {

static constexpr const char *kHashKey = "checkpoint", *kSampleKey = "checkpoint_sample";

void markCheckpoint(const CheckpointHash &checkpointHash, Artifact &artifact) {
  artifact.provenance.emplace_back(kHashKey, formatChecksum(checkpointHash.first));
  if (checkpointHash.sample)
    artifact.provenance.emplace_back(kSampleKey, formatChecksum(checkpointHash.sample));
}

// nullopt if the compiler that wrote the file was older than the key.
static Result<std::optional<uint64_t>> numberAt(const Artifact &artifact,
                                                const std::string &artifactPath, const char *key) {
  const auto mark =
      std::ranges::find(artifact.provenance, key, &std::pair<std::string, std::string>::first);
  if (mark == artifact.provenance.end())
    return std::optional<uint64_t>();
  const std::optional<uint64_t> number = parseChecksum(mark->second);
  if (!number)
    return invalidInput(artifactPath, ": '", key, "' of the provenance is '", mark->second,
                        "', expected 16 hexadecimal digits");
  return number;
}

Status checkSameCheckpoint(const CheckpointHash &profiled, const std::string &profilePath,
                           const CheckpointHash &expected, const std::string &whose) {
  if (mayBeSame(profiled, expected))
    return {};
  const bool isHashSame = profiled.first == expected.first;
  return invalidInput(
      profilePath, ": the profile is of a checkpoint with ", isHashSame ? "sample " : "hash ",
      formatChecksum(isHashSame ? profiled.sample : profiled.first), ", expected ",
      formatChecksum(isHashSame ? expected.sample : expected.first), ", which ", whose);
}

Status checkSameCheckpoint(const Artifact &artifact, const std::string &artifactPath,
                           const CheckpointHash &profiled, const std::string &profilePath,
                           const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const std::optional<uint64_t> hash,
                         numberAt(artifact, artifactPath, kHashKey));
  if (!hash) {
    if (session.say)
      session.say(strCat("warning: ", artifactPath, " does not record its checkpoint, so ",
                         profilePath, " may belong to another one"));
    return {};
  }
  MOERT_ASSIGN_OR_RETURN(const std::optional<uint64_t> sample,
                         numberAt(artifact, artifactPath, kSampleKey));
  return checkSameCheckpoint(profiled, profilePath, {*hash, sample.value_or(0)},
                             strCat(artifactPath, " was made from"));
}

} // namespace moec
