// Where a long compilation or calibration keeps what it has done: OUT.work, beside its output. It
// stays where --resume can go on from it, and is removed otherwise.
#pragma once

#include "runtime/base/Status.h"

#include <optional>
#include <span>
#include <string>

namespace moec {

/// Owns the directory and a lock on it, which keeps a second program with the same output away.
/// Movable; one thread.
class WorkDirectory {
public:
  /// OUT.work. Without `resume`, what an earlier run left there is removed. Refuses a directory
  /// that this class did not make, and one that another process is working in.
  static moert::Result<WorkDirectory> open(const std::string &outputPath, bool resume);
  /// Refuses inputs that lie in the directory, which would go with it.
  static moert::Status checkHoldsNone(const std::string &outputPath,
                                      std::span<const std::string> inputs);
  /// For a command that uses no work directory: the one that an interrupted command with the same
  /// output left, locked, and kept unless discard() is called. Nothing where there is none, or one
  /// that this class did not make. Refuses inputs that lie in it, and one that another process is
  /// working in.
  static moert::Result<std::optional<WorkDirectory>> findLeft(const std::string &outputPath,
                                                              std::span<const std::string> inputs);
  /// What to say of a directory that findLeft() found.
  std::string leftText(const std::string &outputPath) const;
  /// Removes files that an interrupted command left, the last one first, since without it the
  /// others cannot be resumed. Whether the last one was there.
  static bool removeFiles(std::span<const std::string> paths);
  static std::string pathOf(const std::string &outputPath) { return outputPath + ".work"; }

  WorkDirectory(WorkDirectory &&other) noexcept;
  WorkDirectory &operator=(WorkDirectory &&other) = delete;
  /// Removes the directory with everything in it, unless keep() was called.
  ~WorkDirectory();

  const std::string &path() const { return directory; }
  /// Whether there was one to go on with.
  bool isResumed() const { return resumed; }
  void keep() { isRemovedAtEnd = false; }
  void discard() { isRemovedAtEnd = true; }
  /// Keeps the directory where --resume can go on from it behind such an end: an interruption, a
  /// failure of the system with something done, any error of a resumed run, whose start it was.
  /// To an interruption or a failure it adds what is kept, with those of the files beside it that
  /// are there. Nothing where keep() was called before: who did it has said why.
  moert::Status keepAfter(moert::Status status, std::span<const std::string> beside);

  /// A step's result may be used again if it was marked, after it was whole, with the same key. It
  /// is unmarked before another takes its place.
  bool isMarked(const std::string &step, const std::string &key) const;
  moert::Status mark(const std::string &step, const std::string &key) const;
  moert::Status unmark(const std::string &step) const;

private:
  WorkDirectory(std::string name, int lockFile, bool isOld)
      : directory(std::move(name)), lock(lockFile), resumed(isOld) {}

  std::string directory;
  int lock = -1;
  bool resumed = false;
  bool isRemovedAtEnd = true;
};

} // namespace moec
