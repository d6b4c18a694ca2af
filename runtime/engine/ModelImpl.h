// The internals of an opened artifact, shared with the engine.
#pragma once

#include "moert/Engine.h"
#include "runtime/io/ArtifactFile.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace moert {

struct Model::Impl {
  ArtifactFile file;
  Artifact artifact;
  std::vector<std::byte> tokenizerTable; // The tokenizer reads it in place.
  std::optional<Tokenizer> tokenizer;
};

} // namespace moert
