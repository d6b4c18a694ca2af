// Distinguishes artifacts from checkpoints, for the errors about a path of the wrong kind.
#pragma once

#include "runtime/base/Status.h"

#include <string>

namespace moert {

/// The first bytes of an artifact. Like PNG's: the first one is not text, and the line ends reveal
/// a text-mode copy.
inline constexpr unsigned char kArtifactMagic[8] = {0x89, 'M', 'O', 'E', '\r', '\n', 0x1a, '\n'};

/// Whether the regular file begins as an artifact does.
bool beginsAsArtifact(const std::string &path);

/// The error about an existing path that is not a regular file, where an artifact was expected.
/// Names the command that compiles it if it is a checkpoint's folder.
Status noArtifact(const std::string &path);

} // namespace moert
