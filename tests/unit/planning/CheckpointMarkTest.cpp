#include "compiler/planning/CheckpointMark.h"

#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

static constexpr CheckpointHash kCheckpoint = {0x1234, 0x5678};

static std::string refusal(const CheckpointHash &marked, const CheckpointHash &profiled) {
  Artifact artifact = tinyArtifact();
  markCheckpoint(marked, artifact);
  Session session;
  session.say = [](std::string_view line) { FAIL_CHECK(line); };
  const Status status = checkSameCheckpoint(artifact, "a.moe", profiled, "b.profile", session);
  CHECK((status.isOk() || status.code() == StatusCode::kInvalidInput));
  return status.message();
}

TEST_CASE("a profile of the artifact's own checkpoint is accepted without a warning") {
  CHECK(refusal(kCheckpoint, kCheckpoint) == "");
}

TEST_CASE("if one side has no sample hash, the hash of the first bytes decides") {
  CHECK(refusal({0x1234, 0}, kCheckpoint) == "");
  CHECK(refusal(kCheckpoint, {0x1234, 0}) == "");
  CHECK(refusal(kCheckpoint, {0x1235, 0}) != "");
}

TEST_CASE("a profile of another checkpoint is refused, with both files and the differing hash") {
  CHECK(refusal(kCheckpoint, {0x1235, 0x5679}) ==
        "b.profile: the profile is of a checkpoint with hash 0000000000001235, expected "
        "0000000000001234, which a.moe was made from");
  CHECK(refusal(kCheckpoint, {0x1234, 0x5679}) ==
        "b.profile: the profile is of a checkpoint with sample 0000000000005679, expected "
        "0000000000005678, which a.moe was made from");
}

TEST_CASE("a malformed mark is refused, not treated as missing") {
  for (const char *key : {"checkpoint", "checkpoint_sample"}) {
    Artifact artifact = tinyArtifact();
    markCheckpoint(kCheckpoint, artifact);
    for (auto &[name, value] : artifact.provenance)
      if (name == key)
        value = "5678";
    CHECK(checkSameCheckpoint(artifact, "a.moe", kCheckpoint, "b.profile", Session()).message() ==
          std::string("a.moe: '") + key +
              "' of the provenance is '5678', expected 16 hexadecimal digits");
  }
}

TEST_CASE("for an artifact without a mark a profile is accepted with a warning") {
  std::string said;
  Session session;
  session.say = [&](std::string_view line) { said += line; };
  CHECK(checkSameCheckpoint(tinyArtifact(), "a.moe", kCheckpoint, "b.profile", session).isOk());
  CHECK(said == "warning: a.moe does not record its checkpoint, so b.profile "
                "may belong to another one");
}
