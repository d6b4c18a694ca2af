#include "compiler/session/WorkDirectory.h"

#include "compiler/session/KeptForResume.h"
#include "runtime/base/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace moert;

namespace moec {

Status makeDirectory(const std::string &path) {
  std::error_code error;
  std::filesystem::create_directory(path, error);
  return error ? openError(error.value(), strCat("cannot make the directory ", path)) : Status();
}

// The lock file also marks the directory as a work directory, which may be deleted with its
// contents.
static std::string lockPathOf(const std::string &directory) {
  return directory + "/moec.lock";
}

Status WorkDirectory::checkHoldsNone(const std::string &outputPath,
                                     std::span<const std::string> inputs) {
  std::error_code error;
  const std::filesystem::path directory =
      std::filesystem::weakly_canonical(pathOf(outputPath), error);
  if (error)
    return {}; // Creating it will fail with an error.
  for (const std::string &input : inputs) {
    auto path = std::filesystem::weakly_canonical(input, error);
    auto [end, ignored] =
        std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
    if (!input.empty() && end == directory.end())
      return invalidInput(input, " lies in ", directory.string(),
                          ", which is removed at the end, expected it elsewhere");
  }
  return {};
}

// Opens and locks the directory's lock file; -1 if another process removed the file and its
// directory in the meantime.
static Result<int> takeLock(const std::string &directory) {
  const std::string path = lockPathOf(directory);
  int lock = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0 && errno == ENOENT)
    return -1;
  if (lock < 0)
    return systemError(errno, strCat("opening ", path));
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return invalidInput("another process is working in ", directory);
  }
  struct stat named, locked;
  if (::stat(path.c_str(), &named) == 0 && ::fstat(lock, &locked) == 0 &&
      named.st_ino == locked.st_ino && named.st_dev == locked.st_dev)
    return lock;
  ::close(lock);
  return -1;
}

// All entries except the lock file; on an error, those listed before it.
static std::vector<std::filesystem::path> contentsOf(const std::string &directory,
                                                     std::error_code &error) {
  std::vector<std::filesystem::path> paths;
  std::filesystem::directory_iterator entry(directory, error), end;
  for (; !error && entry != end; entry.increment(error))
    if (entry->path() != lockPathOf(directory))
      paths.push_back(entry->path());
  return paths;
}

static Status removeAllButLock(const std::string &directory) {
  std::error_code error;
  const std::vector<std::filesystem::path> paths = contentsOf(directory, error);
  for (size_t i = 0; !error && i < paths.size(); ++i)
    std::filesystem::remove_all(paths[i], error);
  return error ? systemError(error.value(), strCat("emptying ", directory)) : Status();
}

Status leftWorkError(const std::string &found) {
  return invalidInput("found the work of an interrupted command: ", found,
                      "; --resume with its options continues it, --restart removes it and begins "
                      "anew");
}

/// The last file goes first, so that after a kill the rest is not taken for work to resume.
static void removeFiles(std::span<const std::string> paths) {
  auto remove = [](const std::string &path) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(std::filesystem::symlink_status(path, ignored)))
      std::filesystem::remove(path, ignored);
  };
  if (!paths.empty())
    remove(paths.back());
  std::ranges::for_each(paths, remove);
}

Result<WorkDirectory> WorkDirectory::open(const std::string &outputPath, LeftWork left,
                                          std::span<const std::string> beside) {
  const std::string directory = pathOf(outputPath);
  std::error_code error;
  if (std::filesystem::is_directory(outputPath, error))
    return invalidInput("output '", outputPath,
                        "' is a directory, expected the name of a file to write");
  const bool isThere = std::filesystem::exists(directory, error);
  if (isThere && !std::filesystem::exists(lockPathOf(directory), error) &&
      !std::filesystem::is_empty(directory, error))
    return invalidInput(directory,
                        " exists and was not made by moec, expected a free name for "
                        "the work directory until ",
                        outputPath, " is done");
  std::filesystem::create_directory(directory, error);
  if (error == std::errc::no_such_file_or_directory)
    return invalidInput("output '", outputPath, "': there is no directory '",
                        std::filesystem::path(outputPath).parent_path().string(), "'");
  if (error)
    return openError(error.value(), strCat("cannot make the directory ", directory));
  auto taken = takeLock(directory);
  if (!taken.isOk()) {
    std::filesystem::remove(directory, error); // Fails if the directory is not empty.
    return taken.status();
  }
  const int lock = *taken;
  if (lock < 0)
    return open(outputPath, left, beside);
  WorkDirectory work(directory, lock, isThere && left == LeftWork::kResume);
  if (left == LeftWork::kResume)
    return work;
  const bool hasContents = !contentsOf(directory, error).empty();
  const bool hasFiles = !beside.empty() && std::ranges::all_of(beside, [](const auto &path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
  });
  if (left == LeftWork::kRefuse && (hasContents || hasFiles)) {
    if (hasContents)
      work.keep();
    return leftWorkError(hasContents ? directory : beside.front());
  }
  removeFiles(beside);
  MOERT_RETURN_IF_ERROR(removeAllButLock(directory));
  return work;
}

Result<std::optional<WorkDirectory>> WorkDirectory::findLeft(const std::string &outputPath,
                                                             std::span<const std::string> inputs) {
  std::error_code error;
  if (!std::filesystem::exists(lockPathOf(pathOf(outputPath)), error))
    return std::optional<WorkDirectory>();
  MOERT_RETURN_IF_ERROR(checkHoldsNone(outputPath, inputs));
  MOERT_ASSIGN_OR_RETURN(WorkDirectory left, open(outputPath, LeftWork::kResume));
  left.keep();
  return std::optional<WorkDirectory>(std::move(left));
}

std::string WorkDirectory::leftText() const {
  return strCat(directory, " was left by an interrupted command, such as a compile with "
                           "--accuracy-loss, which --resume with its options continues; this "
                           "command neither uses nor removes it");
}

WorkDirectory::WorkDirectory(WorkDirectory &&other) noexcept
    : directory(std::move(other.directory)), lock(std::exchange(other.lock, -1)),
      resumed(other.resumed), isRemovedAtEnd(other.isRemovedAtEnd) {}

WorkDirectory::~WorkDirectory() {
  if (lock < 0)
    return;
  // The lock file goes last, so that after a kill the rest is still recognized as a work directory.
  std::error_code ignored;
  if (isRemovedAtEnd && removeAllButLock(directory).isOk())
    std::filesystem::remove_all(directory, ignored);
  ::close(lock);
}

Status WorkDirectory::keepAfter(Status status, std::span<const std::string> beside) {
  std::error_code error;
  if (!isRemovedAtEnd || !isKeptForResume(status, resumed, !contentsOf(directory, error).empty()))
    return status;
  keep();
  if (status.code() == StatusCode::kInvalidInput)
    return status;
  const bool isInterrupted = status.code() == StatusCode::kInterrupted;
  std::string left = directory;
  for (const std::string &path : beside)
    if (std::filesystem::exists(path, error))
      left += strCat(", ", path);
  return Status(status.code(), strCat(isInterrupted ? "interrupted" : status.message(),
                                      "; --resume continues from ", left));
}

static std::string markPathOf(const std::string &directory, const std::string &step) {
  return directory + "/" + step + ".of";
}

bool WorkDirectory::isMarked(const std::string &step, const std::string &key) const {
  std::ifstream file(markPathOf(directory, step));
  std::string line;
  return std::getline(file, line) && line == key;
}

Status WorkDirectory::mark(const std::string &step, const std::string &key) const {
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(markPathOf(directory, step)));
  MOERT_RETURN_IF_ERROR(file.append(key + "\n"));
  return file.commit();
}

Status WorkDirectory::unmark(const std::string &step) const {
  const std::string path = markPathOf(directory, step);
  std::error_code error;
  std::filesystem::remove(path, error);
  return error ? systemError(error.value(), strCat("removing ", path)) : Status();
}

Result<bool> WorkDirectory::takeUp(const std::string &step, const std::string &key,
                                   std::span<const std::string> files) const {
  if (isMarked(step, key))
    return true;
  MOERT_RETURN_IF_ERROR(unmark(step));
  for (const std::string &path : files) {
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error)
      return systemError(error.value(), strCat("removing ", path));
  }
  MOERT_RETURN_IF_ERROR(mark(step, key));
  return false;
}

} // namespace moec
