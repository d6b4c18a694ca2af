// Tests of refusals: changes to the tiny artifact, each of which breaks one rule, and what the
// reader has to say of the file.
#pragma once

#include "tests/unit/format/TinyArtifact.h"

#include <functional>
#include <vector>

struct Broken {
  const char *what;
  std::function<void(moert::Artifact &)> breakIt;
  const char *message; // Part of it.
};

/// Each change alone, as a file with right checksums, so that they are not what refuses it.
void checkAllRefused(const std::vector<Broken> &cases,
                     const moert::Artifact &whole = tinyArtifact());

/// What a reader says of the artifact's file.
moert::Status readBack(moert::Artifact artifact);
