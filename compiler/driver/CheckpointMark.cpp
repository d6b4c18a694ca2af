#include "compiler/driver/CheckpointMark.h"

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

static std::optional<uint64_t> numberAt(const Artifact &artifact, const char *key) {
  const auto mark =
      std::ranges::find(artifact.provenance, key, &std::pair<std::string, std::string>::first);
  if (mark == artifact.provenance.end())
    return std::nullopt;
  return parseChecksum(mark->second).value_or(0); // Which no checkpoint has.
}

Status checkSameCheckpoint(const CheckpointHash &profiled, const std::string &profilePath,
                           const CheckpointHash &expected, const std::string &whose) {
  if (mayBeSame(profiled, expected))
    return {};
  const bool beginAlike = profiled.first == expected.first;
  return invalidInput(
      profilePath, ": the profile is of a checkpoint with ", beginAlike ? "sample " : "hash ",
      formatChecksum(beginAlike ? profiled.sample : profiled.first), ", expected ",
      formatChecksum(beginAlike ? expected.sample : expected.first), ", which ", whose);
}

Status checkSameCheckpoint(const Artifact &artifact, const std::string &artifactPath,
                           const CheckpointHash &profiled, const std::string &profilePath,
                           const Session &session) {
  const std::optional<uint64_t> hash = numberAt(artifact, kHashKey);
  if (!hash) {
    if (session.say)
      session.say(strCat("warning: ", artifactPath, " does not say which checkpoint it was made ",
                         "from, so that ", profilePath, " may be of another one"));
    return {};
  }
  return checkSameCheckpoint(profiled, profilePath,
                             {*hash, numberAt(artifact, kSampleKey).value_or(0)},
                             strCat(artifactPath, " was made from"));
}

} // namespace moec
