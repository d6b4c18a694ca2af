// Distinguishes artifacts, checkpoints and what else is given for one of them, for the errors about
// a path of the wrong kind.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>

namespace moert {

/// The first bytes of an artifact. Like PNG's: the first one is not text, and the line ends reveal
/// a text-mode copy.
inline constexpr unsigned char kArtifactMagic[8] = {0x89, 'M', 'O', 'E', '\r', '\n', 0x1a, '\n'};

/// Whether the regular file begins as an artifact does.
bool beginsAsArtifact(const std::string &path);

/// The error about an existing path that is not a regular file, where an artifact was expected.
/// Names the command that compiles it if it is a checkpoint's folder.
Status noArtifact(const std::string &path);

/// The error about a path that cannot be opened, where an artifact was expected.
Status cannotOpenArtifact(int errnoValue, const std::string &path);

/// What is known of a file by its first bytes: a GGUF file, a pointer of git-lfs. A sentence with
/// what helps, or empty.
std::string foreignFileText(std::string_view firstBytes);

/// "; ..." about a path that is not there but may be the name of a model on Hugging Face's hub: the
/// command that downloads it. Otherwise empty.
std::string hubHint(const std::string &path);

} // namespace moert
