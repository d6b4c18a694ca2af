// Tests of refusals: changes to the tiny artifact, each of which breaks one rule, and the expected
// message of the reader.
#pragma once

#include "tests/unit/format/TinyArtifact.h"

#include <functional>
#include <vector>

struct Broken {
  const char *what;
  std::function<void(moert::Artifact &)> breakIt;
  const char *message; // Part of the message.
};

/// Applies each change alone, with right checksums, so that a rule refuses the file.
void checkAllRefused(const std::vector<Broken> &cases,
                     const moert::Artifact &whole = tinyArtifact());

/// The status of reading the artifact's file.
moert::Status readBack(moert::Artifact artifact);
