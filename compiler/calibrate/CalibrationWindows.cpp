#include "compiler/calibrate/CalibrationWindows.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/base/RandomStream.h"
#include "runtime/base/Size.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

using namespace moert;

namespace moec {

// The text, its normalized copy, and an id for every byte at worst.
static constexpr uint64_t kTokenizingBytesPerByte = 6;

std::vector<uint64_t> shareWindows(std::span<const uint64_t> available, uint64_t windows) {
  std::vector<size_t> order(available.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return available[a] < available[b]; });
  // From the poorest on: what one cannot give, the richer ones share.
  std::vector<uint64_t> shares(available.size());
  uint64_t left = windows;
  for (size_t i = 0; i < order.size(); ++i) {
    shares[order[i]] = std::min(available[order[i]], left / (order.size() - i));
    left -= shares[order[i]];
  }
  return shares;
}

static Result<std::vector<int32_t>> readText(const std::string &path, const WindowRequest &request,
                                             const Tokenizer &tokenizer, CalibrationText &about) {
  const std::string name = inputName(path);
  std::error_code ignored;
  uint64_t size = std::filesystem::file_size(path, ignored);
  if (!ignored && size > request.memoryBytes / kTokenizingBytesPerByte)
    return invalidInput(name, ": ", formatBytes(size), " of text, more than can be read in ",
                        formatBytes(request.memoryBytes), " of memory");
  MOERT_ASSIGN_OR_RETURN(std::string text, readInput(path));
  MOERT_RETURN_IF_ERROR(checkUtf8(text, name));
  if (text.empty())
    return invalidInput(name, ": the text is empty, expected at least a window of ",
                        request.windowTokens, " tokens");
  about.name = std::filesystem::path(path).filename().string();
  about.bytes = text.size();
  about.hash = checksum64(std::as_bytes(std::span(text)));
  auto ids = tokenizer.encode(text, true);
  if (!ids.isOk())
    return ids.status().withContext(name);
  if (ids->size() < request.windowTokens)
    return invalidInput(name, ": ", ids->size(), " tokens, expected at least a window of ",
                        request.windowTokens);
  return ids;
}

// Window i of a text lies somewhere in the i-th of its equal parts.
static void takeWindows(std::span<const int32_t> ids, uint64_t windows, uint32_t windowTokens,
                        RandomStream &random, std::vector<int32_t> &tokens) {
  for (uint64_t i = 0; i < windows; ++i) {
    uint64_t begin = ids.size() * i / windows, end = ids.size() * (i + 1) / windows;
    uint64_t places = end - begin - windowTokens + 1;
    uint64_t at = begin + random.nextBelow(static_cast<uint32_t>(places));
    auto window = ids.subspan(at, windowTokens);
    tokens.insert(tokens.end(), window.begin(), window.end());
  }
}

Result<CalibrationWindows>
readCalibrationWindows(const WindowRequest &request, const Tokenizer &tokenizer,
                       const std::function<void(std::string_view)> &say) {
  const uint64_t wanted = divideUp(request.tokens, std::max(1u, request.windowTokens));
  if (request.windowTokens == 0 || wanted == 0 || wanted > UINT32_MAX / request.windowTokens)
    return invalidInput(request.tokens, " tokens of calibration in windows of ",
                        request.windowTokens, ", expected 1 to ", UINT32_MAX, " tokens");
  if (request.textPaths.empty() || wanted < request.textPaths.size())
    return invalidInput(request.textPaths.size(), " calibration texts for ", wanted, " windows of ",
                        request.windowTokens, " tokens, expected 1 text to as many as windows");
  CalibrationWindows windows;
  std::vector<std::vector<int32_t>> ids;
  std::vector<uint64_t> available;
  for (const std::string &path : request.textPaths) {
    MOERT_ASSIGN_OR_RETURN(std::vector<int32_t> read,
                           readText(path, request, tokenizer, windows.texts.emplace_back()));
    available.push_back(read.size() / request.windowTokens);
    ids.push_back(std::move(read));
  }
  std::vector<uint64_t> shares = shareWindows(available, wanted);
  RandomStream random(request.seed);
  for (size_t i = 0; i < ids.size(); ++i) {
    takeWindows(ids[i], shares[i], request.windowTokens, random, windows.tokens);
    windows.texts[i].windows = static_cast<uint32_t>(shares[i]);
  }
  if (uint64_t taken = windows.tokens.size() / request.windowTokens; taken < wanted && say)
    say(strCat("the calibration texts have ", taken, " windows of ", request.windowTokens,
               " tokens, ", wanted, " were asked for: all are taken"));
  return windows;
}

} // namespace moec
