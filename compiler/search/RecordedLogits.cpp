#include "compiler/search/RecordedLogits.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

using namespace moert;

namespace moec {

Result<std::unique_ptr<RecordingLogits>>
RecordingLogits::create(LogitsSource &source, const std::string &path, uint32_t windowTokens) {
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0)
    return systemError(errno, strCat("creating ", path));
  return std::unique_ptr<RecordingLogits>(new RecordingLogits(source, file, path, windowTokens));
}

RecordingLogits::~RecordingLogits() {
  ::close(file);
}

void RecordingLogits::reset() {
  source.reset();
  position = 0;
}

static Status writeAll(int file, std::span<const std::byte> bytes, uint64_t offset,
                       const std::string &path) {
  while (!bytes.empty()) {
    ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), off_t(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return systemError(errno, strCat("writing ", path));
    bytes = bytes.subspan(size_t(count));
    offset += size_t(count);
  }
  return {};
}

Status RecordingLogits::append(std::span<const int32_t> tokens, const TakeRow &takeRow) {
  const uint64_t first = firstRow + position;
  position += tokens.size();
  return source.append(tokens, [&](uint32_t index, std::span<const float> logits) -> Status {
    MOERT_RETURN_IF_ERROR(
        writeAll(file, std::as_bytes(logits), (first + index) * logits.size_bytes(), path));
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

Status PlayedLogits::append(std::span<const int32_t> tokens, const TakeRow &takeRow) {
  row.resize(width);
  const uint64_t rowBytes = uint64_t(width) * sizeof(float);
  for (uint32_t i = 0; takeRow && i < tokens.size(); ++i) {
    uint64_t offset = (firstRow + position + i) * rowBytes;
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
