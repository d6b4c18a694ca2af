#include "runtime/base/ArtifactPath.h"

#include <cstring>
#include <fstream>
#include <sys/stat.h>

namespace moert {

bool beginsAsArtifact(const std::string &path) {
  char first[sizeof kArtifactMagic];
  return std::ifstream(path, std::ios::binary).read(first, sizeof first) &&
         std::memcmp(first, kArtifactMagic, sizeof first) == 0;
}

Status noArtifact(const std::string &path) {
  struct stat found;
  if (::stat((path + "/config.json").c_str(), &found) == 0)
    return invalidInput(path,
                        ": found the folder of a checkpoint, expected an artifact; moec compile ",
                        path, " -o OUT.moe makes one");
  return invalidInput(path, ": this is not a regular file, expected an artifact");
}

} // namespace moert
