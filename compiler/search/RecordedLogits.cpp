#include "compiler/search/RecordedLogits.h"

#include <fcntl.h>

using namespace moert;

namespace moec {

Result<std::unique_ptr<RecordingLogits>>
RecordingLogits::create(LogitsSource &source, const std::string &path, uint32_t windowTokens) {
  MOERT_ASSIGN_OR_RETURN(RandomFile file, RandomFile::open(path, O_WRONLY | O_CREAT));
  return std::unique_ptr<RecordingLogits>(
      new RecordingLogits(source, std::move(file), windowTokens));
}

void RecordingLogits::reset() {
  source.reset();
  position = windowTokens * windows++;
}

Status RecordingLogits::append(std::span<const int32_t> tokens, const TakeRow &takeRow) {
  const uint64_t first = position;
  position += tokens.size();
  return source.append(tokens, [&](uint32_t index, std::span<const float> logits) -> Status {
    MOERT_RETURN_IF_ERROR(
        file.writeAt((first + index) * logits.size_bytes(), std::as_bytes(logits)));
    return takeRow ? takeRow(index, logits) : Status();
  });
}

Result<std::unique_ptr<ReplayedLogits>>
ReplayedLogits::open(const std::string &path, uint32_t vocabularySize, uint32_t windowTokens) {
  MOERT_ASSIGN_OR_RETURN(RandomFile file, RandomFile::open(path, O_RDONLY));
  return std::unique_ptr<ReplayedLogits>(
      new ReplayedLogits(std::move(file), vocabularySize, windowTokens));
}

Status ReplayedLogits::append(std::span<const int32_t> tokens, const TakeRow &takeRow) {
  row.resize(width);
  auto bytes = std::as_writable_bytes(std::span(row));
  for (uint32_t i = 0; takeRow && i < tokens.size(); ++i) {
    uint64_t index = position + i;
    MOERT_RETURN_IF_ERROR(
        file.readAt(index * bytes.size(), bytes).withContext(strCat("row ", index)));
    MOERT_RETURN_IF_ERROR(takeRow(i, row));
  }
  position += tokens.size();
  return {};
}

} // namespace moec
