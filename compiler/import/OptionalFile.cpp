#include "compiler/import/OptionalFile.h"

#include <array>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

Result<bool> hasEntry(const std::string &path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) == 0)
    return true;
  // A name that is too long for the file system has no entry.
  if (errno == ENOENT || errno == ENAMETOOLONG)
    return false;
  return moert::openError(errno, path + ": cannot be looked up");
}

static std::string linkText(const std::string &path) {
  std::array<char, PATH_MAX> target;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length < 0)
    return "";
  return strCat("a link to ", std::string_view(target.data(), static_cast<size_t>(length)), ", ");
}

static Status refuseKind(const std::string &path, std::string_view found) {
  return invalidInput(path, ": found ", linkText(path), found,
                      ", expected a regular file that can be read, or none of this name");
}

static std::string_view kindText(mode_t mode) {
  return S_ISDIR(mode)    ? "a directory"
         : S_ISFIFO(mode) ? "a pipe"
         : S_ISSOCK(mode) ? "a socket"
                          : "a device";
}

Result<bool> hasReadableFile(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(const bool isThere, hasEntry(path));
  if (!isThere)
    return false;
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR)
      return refuseKind(path, "which is not there (a download that is incomplete, or a cache whose "
                              "files are elsewhere)");
    if (error == ELOOP)
      return refuseKind(path, "which leads in a circle");
    if (error == EACCES)
      return refuseKind(path, "in a directory without permission to enter it");
    return moert::openError(error, path + ": cannot be read");
  }
  if (!S_ISREG(info.st_mode))
    return refuseKind(path, kindText(info.st_mode));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    if (errno == EACCES || errno == EPERM)
      return refuseKind(path, "a file without permission to read it");
    return moert::openError(errno, path + ": cannot be opened");
  }
  ::close(descriptor);
  return true;
}

Result<std::vector<std::string_view>> otherTokenizerFiles(const std::string &directory) {
  constexpr std::array<std::string_view, 7> kNames = {
      "tokenizer.model", "tiktoken.model",    "vocab.json",           "merges.txt",
      "vocab.txt",       "added_tokens.json", "tokenizer_config.json"};
  std::vector<std::string_view> found;
  for (const std::string_view name : kNames) {
    MOERT_ASSIGN_OR_RETURN(const bool isThere, hasEntry(strCat(directory, "/", name)));
    if (isThere)
      found.push_back(name);
  }
  return found;
}

Status checkHasConfig(const std::string &path) {
  MOERT_ASSIGN_OR_RETURN(const bool isThere, hasEntry(path + "/config.json"));
  if (isThere)
    return {};
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().extension() == ".gguf")
      return invalidInput(path, ": found ", entry->path().filename().string(),
                          " and no config.json, expected a checkpoint's folder; to read the file, "
                          "give its own path");
  return invalidInput(path, ": found no config.json, expected the folder of a checkpoint, with "
                            "config.json and model.safetensors, or a GGUF file");
}

} // namespace moec
