#include "compiler/driver/CheckpointMark.h"

#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

TEST_CASE("a profile of the checkpoint that an artifact is marked with is taken, without a word") {
  Artifact artifact = tinyArtifact();
  markCheckpoint(0x1234, artifact);
  Session session;
  session.say = [](std::string_view line) { FAIL_CHECK(line); };
  CHECK(checkSameCheckpoint(artifact, "a.moe", 0x1234, "b.profile", session).isOk());
}

TEST_CASE("a profile of another checkpoint is refused, naming both files and both hashes") {
  Artifact artifact = tinyArtifact();
  markCheckpoint(0x1234, artifact);
  const Status status = checkSameCheckpoint(artifact, "a.moe", 0x1235, "b.profile", Session());
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message() == "b.profile: the profile is of a checkpoint with hash 0000000000001235, "
                            "expected 0000000000001234, which a.moe was made from");
}

TEST_CASE("of an artifact without a mark a profile is taken with a warning") {
  std::string said;
  Session session;
  session.say = [&](std::string_view line) { said += line; };
  CHECK(checkSameCheckpoint(tinyArtifact(), "a.moe", 0x1234, "b.profile", session).isOk());
  CHECK(said == "warning: a.moe does not say which checkpoint it was made from, so that b.profile "
                "may be of another one");
}
