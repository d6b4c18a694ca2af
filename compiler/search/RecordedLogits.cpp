#include "compiler/search/RecordedLogits.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

using namespace moert;

namespace moec {

Result<std::unique_ptr<RecordingLogits>> RecordingLogits::create(LogitsSource &source,
                                                                 const std::string &path) {
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0)
    return systemError(errno, strCat("creating ", path));
  return std::unique_ptr<RecordingLogits>(new RecordingLogits(source, file, path));
}

RecordingLogits::~RecordingLogits() {
  ::close(file);
}

static Status writeAll(int file, std::span<const std::byte> bytes, const std::string &path) {
  while (!bytes.empty()) {
    ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(errno, strCat("writing ", path));
    bytes = bytes.subspan(size_t(count));
  }
  return {};
}

Status RecordingLogits::append(std::span<const int32_t> tokens, const TakeRow &takeRow) {
  return source.append(tokens, [&](uint32_t index, std::span<const float> logits) -> Status {
    MOERT_RETURN_IF_ERROR(writeAll(file, std::as_bytes(logits), path));
    return takeRow ? takeRow(index, logits) : Status();
  });
}

Result<std::unique_ptr<PlayedLogits>>
PlayedLogits::open(const std::string &path, uint32_t vocabularySize, uint32_t windowTokens) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return systemError(errno, strCat("opening ", path));
  return std::unique_ptr<PlayedLogits>(new PlayedLogits(file, path, vocabularySize, windowTokens));
}

PlayedLogits::~PlayedLogits() {
  ::close(file);
}

void PlayedLogits::reset() {
  ++window;
  position = 0;
}

Status PlayedLogits::append(std::span<const int32_t> tokens, const TakeRow &takeRow) {
  row.resize(width);
  const uint64_t rowBytes = uint64_t(width) * sizeof(float);
  for (uint32_t i = 0; takeRow && i < tokens.size(); ++i) {
    uint64_t offset = (uint64_t(window) * windowTokens + position + i) * rowBytes;
    ssize_t count = ::pread(file, row.data(), rowBytes, off_t(offset));
    if (count < 0)
      return systemError(errno, strCat("reading ", path));
    if (uint64_t(count) != rowBytes)
      return failed(path, " ends before row ", offset / rowBytes);
    MOERT_RETURN_IF_ERROR(takeRow(i, row));
  }
  position += tokens.size();
  return {};
}

} // namespace moec
