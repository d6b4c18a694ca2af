// Optional files of a checkpoint. A file is absent only if no directory entry has its name; an
// entry that cannot be read is an error, never an absent file.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// Whether a directory entry of any kind has this name, broken links included. An error if the
/// system cannot determine it.
moert::Result<bool> hasEntry(const std::string &path);

/// An error that names what a checkpoint's folder without config.json holds instead.
moert::Status checkHasConfig(const std::string &path);

/// True for a regular file that this process may read, directly or through links; false if no entry
/// has the name. Anything else is an error that names it: a broken or circular link, a directory, a
/// pipe, a file without permission.
moert::Result<bool> hasReadableFile(const std::string &path);

/// The directory's files that hold a tokenizer in an unsupported form (tokenizer.model, vocab.json
/// and the like), in a fixed order.
moert::Result<std::vector<std::string_view>> otherTokenizerFiles(const std::string &directory);

} // namespace moec
