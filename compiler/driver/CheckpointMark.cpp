#include "compiler/driver/CheckpointMark.h"

#include "runtime/base/Checksum.h"

#include <algorithm>
#include <utility>

using namespace moert;

namespace moec {

static constexpr const char *kKey = "checkpoint";

void markCheckpoint(uint64_t checkpointHash, Artifact &artifact) {
  artifact.provenance.emplace_back(kKey, formatChecksum(checkpointHash));
}

Status checkSameCheckpoint(const Artifact &artifact, const std::string &artifactPath,
                           uint64_t profiledHash, const std::string &profilePath,
                           const Session &session) {
  const auto mark =
      std::ranges::find(artifact.provenance, kKey, &std::pair<std::string, std::string>::first);
  if (mark == artifact.provenance.end()) {
    if (session.say)
      session.say(strCat("warning: ", artifactPath, " does not say which checkpoint it was made ",
                         "from, so that ", profilePath, " may be of another one"));
    return {};
  }
  const std::string found = formatChecksum(profiledHash);
  if (found != mark->second)
    return invalidInput(profilePath, ": the profile is of a checkpoint with hash ", found,
                        ", expected ", mark->second, ", which ", artifactPath, " was made from");
  return {};
}

} // namespace moec
