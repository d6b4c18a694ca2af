#include "runtime/base/ArtifactPath.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
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

Status cannotOpenArtifact(int errnoValue, const std::string &path) {
  const Status status = openError(errnoValue, path + ": cannot be opened");
  return errnoValue == ENOENT ? Status(status.code(), status.message() + hubHint(path)) : status;
}

std::string foreignFileText(std::string_view firstBytes) {
  if (firstBytes.starts_with("GGUF"))
    return "found a GGUF file, which only moec reads, given by its own path: moec compile "
           "FILE.gguf -o OUT.moe makes an artifact of it";
  if (firstBytes.starts_with("version https://git-lfs"))
    return "found a pointer of git-lfs, expected the file that it stands for; git lfs pull in its "
           "folder fetches it, hf download too";
  return "";
}

/// A word of letters, digits, '.', '_' and '-' that does not begin with '.'.
static bool isHubWord(std::string_view word) {
  return !word.empty() && word.front() != '.' &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

std::string hubHint(const std::string &path) {
  const size_t slash = path.find('/');
  if (slash == std::string::npos || path.ends_with(".moe"))
    return "";
  const std::string organization = path.substr(0, slash), name = path.substr(slash + 1);
  struct stat found;
  if (!isHubWord(organization) || !isHubWord(name) || ::stat(organization.c_str(), &found) == 0)
    return "";
  return strCat("; if it is a model on Hugging Face's hub: hf download ", path, " --local-dir ",
                name, ", then moec compile ", name, " -o ", name, ".moe");
}

} // namespace moert
