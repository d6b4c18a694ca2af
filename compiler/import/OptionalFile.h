// Files that a checkpoint may have or lack. A file is absent only where no directory entry has its
// name; an entry that cannot be read is an error and is never taken for an absent file.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Whether a directory entry of any kind has this name; a link counts wherever it leads. An error
/// where the system cannot say.
moert::Result<bool> hasEntry(const std::string &path);

/// True for a regular file that this process may read, directly or through links; false where no
/// entry has the name. Refuses everything else by name: a link that leads nowhere or in a circle, a
/// directory, a pipe, a file without permission.
moert::Result<bool> hasReadableFile(const std::string &path);

/// The files in the directory that hold a tokenizer in a form that is not read: tokenizer.model,
/// vocab.json and the like, in a fixed order.
moert::Result<std::vector<std::string_view>> otherTokenizerFiles(const std::string &directory);

} // namespace moec
