// The work directory OUT.work, beside the output, in which a long compilation or calibration keeps
// its intermediate results. It is kept if --resume can continue from it, and removed otherwise.
#pragma once

#include "runtime/base/Status.h"

#include <optional>
#include <span>
#include <string>

namespace moec {

/// What a command does with the work that an interrupted command with the same output left.
enum class LeftWork { kRefuse, kResume, kRemove };

/// From the options --resume and --restart, which exclude each other.
constexpr LeftWork leftWorkOf(bool resume, bool restart) {
  return resume ? LeftWork::kResume : restart ? LeftWork::kRemove : LeftWork::kRefuse;
}

/// The refusal to overwrite it. `found`: its files.
moert::Status leftWorkError(const std::string &found);

/// Makes a directory for a part of the results; one that is there already is used.
moert::Status makeDirectory(const std::string &path);

/// Owns the directory and a lock on it, which excludes a second process with the same output.
/// Movable; for one thread.
class WorkDirectory {
public:
  /// Opens OUT.work. `beside`: files that belong to it and lie beside it, which can be resumed if
  /// all are there; the last one is removed first. Refuses a directory that this class did not
  /// make, one that another process has locked, and with kRefuse one that can be resumed. Only
  /// kResume leaves anything of an earlier run.
  static moert::Result<WorkDirectory> open(const std::string &outputPath, LeftWork left,
                                           std::span<const std::string> beside = {});
  /// Refuses inputs in the directory, since they would be deleted with it.
  static moert::Status checkHoldsNone(const std::string &outputPath,
                                      std::span<const std::string> inputs);
  /// For a command that uses no work directory: finds the one that an interrupted command with the
  /// same output left. It is locked, and kept. nullopt if there is none, or one that this class did
  /// not make. Refuses inputs in it, and a directory that another process has locked.
  static moert::Result<std::optional<WorkDirectory>> findLeft(const std::string &outputPath,
                                                              std::span<const std::string> inputs);
  /// The message about a directory that findLeft() found.
  std::string leftText() const;
  static std::string pathOf(const std::string &outputPath) { return outputPath + ".work"; }

  WorkDirectory(WorkDirectory &&other) noexcept;
  WorkDirectory &operator=(WorkDirectory &&other) = delete;
  /// Removes the directory with everything in it, unless keep() was called.
  ~WorkDirectory();

  const std::string &path() const { return directory; }
  /// Whether an earlier run's directory was opened.
  bool isResumed() const { return resumed; }
  void keep() { isRemovedAtEnd = false; }
  /// Keeps the directory if --resume can continue from it: after an interruption, after a system
  /// failure with something done, and after any error of a resumed run. For an interruption or a
  /// failure, appends the kept paths to the message, with those of `beside` that exist. Does
  /// nothing if keep() was called before: its caller has reported the reason.
  moert::Status keepAfter(moert::Status status, std::span<const std::string> beside);

  /// A step's result may be reused if it was marked with the same key, which happens once it is
  /// complete. Unmark it before replacing it.
  bool isMarked(const std::string &step, const std::string &key) const;
  moert::Status mark(const std::string &step, const std::string &key) const;
  moert::Status unmark(const std::string &step) const;
  /// For a step that leaves files before they are whole: whether those of an earlier run are of the
  /// same key. If not, removes them and then marks the step; what is there afterwards is of the
  /// key, wherever this run is interrupted.
  moert::Result<bool> takeUp(const std::string &step, const std::string &key,
                             std::span<const std::string> files) const;

private:
  WorkDirectory(std::string name, int lockFile, bool isOld)
      : directory(std::move(name)), lock(lockFile), resumed(isOld) {}

  std::string directory;
  int lock = -1;
  bool resumed = false;
  bool isRemovedAtEnd = true;
};

} // namespace moec
