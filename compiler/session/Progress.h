// How far a long step has come, told to whoever shows it.
#pragma once

#include <cstdint>
#include <string_view>

namespace moec {

/// Who does a long step tells it here. One thread at a time.
class Progress {
public:
  virtual ~Progress() = default;
  /// A step of so many bytes begins, of which some were done earlier; it ends the one before.
  virtual void begin(std::string_view step, uint64_t totalBytes, uint64_t doneBytes) = 0;
  /// The same for a step whose units are not bytes: `each` of what is counted are one of `units`,
  /// as in "3 of 48 layers".
  virtual void beginCounting(std::string_view step, std::string_view /*units*/, uint64_t /*each*/,
                             uint64_t total, uint64_t done) {
    begin(step, total, done);
  }
  /// So much of it is done.
  virtual void advanceTo(uint64_t done) = 0;
  /// The step is over, done or not.
  virtual void end() = 0;
};

} // namespace moec
