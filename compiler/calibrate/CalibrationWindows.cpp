#include "compiler/calibrate/CalibrationWindows.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/base/RandomStream.h"
#include "runtime/base/Size.h"
#include "runtime/evaluation/TextDocuments.h"
#include "runtime/evaluation/TextWindows.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

using namespace moert;

namespace moec {

// The text, its normalized copy, and in the worst case an id for every byte.
static constexpr uint64_t kTokenizingBytesPerByte = 6;

std::vector<uint64_t> divideWindows(std::span<const uint64_t> available, uint64_t windows) {
  std::vector<size_t> order(available.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return available[a] < available[b]; });
  // In ascending order of available windows: the others make up for what one text lacks.
  std::vector<uint64_t> counts(available.size());
  uint64_t left = windows;
  for (size_t i = 0; i < order.size(); ++i) {
    counts[order[i]] = std::min(available[order[i]], left / (order.size() - i));
    left -= counts[order[i]];
  }
  return counts;
}

namespace {

/// A text from which windows are taken: one document as its tokens, several as their windows.
struct Source {
  std::vector<int32_t> tokens;
  TextWindows windows;
  uint64_t available = 0; // Number of windows.
};

} // namespace

static Result<Source> readText(const std::string &path, const WindowRequest &request,
                               const Tokenizer &tokenizer, CalibrationText &about) {
  const std::string name = inputName(path);
  std::error_code ignored;
  uint64_t size = std::filesystem::file_size(path, ignored);
  if (!ignored && size > request.memoryBytes / kTokenizingBytesPerByte)
    return invalidInput(name, ": ", formatBytes(size), " of text, more than can be tokenized in ",
                        formatBytes(request.memoryBytes), " of memory");
  MOERT_ASSIGN_OR_RETURN(TextFile file, readTextFile(path, request.documentSeparator));
  if (file.documents.empty())
    return invalidInput(name, ": the text is empty, expected at least a window of ",
                        request.windowTokens, " tokens");
  about.name = std::filesystem::path(path).filename().string();
  about.bytes = file.bytes;
  about.hash = file.hash;
  MOERT_ASSIGN_OR_RETURN(const WindowCutter cutter,
                         WindowCutter::create(tokenizer, request.endTokens, request.vocabularySize,
                                              request.windowTokens));
  Source source;
  auto cut = cutter.cut(file.documents);
  if (!cut.isOk())
    return cut.status().withContext(name);
  if (cut->windows() == 0)
    return invalidInput(name, ": ", cut->tokensRead, " tokens, expected at least a window of ",
                        request.windowTokens);
  source.available = cut->windows();
  if (file.documents.size() == 1) {
    MOERT_ASSIGN_OR_RETURN(source.tokens, cutter.tokensOf(file.documents.front()));
  } else {
    source.windows = std::move(cut).value();
  }
  return source;
}

// Window i of a document is at a random position in the i-th of its equal parts.
static void takeAnywhere(std::span<const int32_t> ids, uint64_t windows, uint32_t windowTokens,
                         RandomStream &random, std::vector<int32_t> &tokens) {
  for (uint64_t i = 0; i < windows; ++i) {
    uint64_t begin = ids.size() * i / windows, end = ids.size() * (i + 1) / windows;
    uint64_t places = end - begin - windowTokens + 1;
    uint64_t at = begin + random.nextBelow(static_cast<uint32_t>(places));
    auto window = ids.subspan(at, windowTokens);
    tokens.insert(tokens.end(), window.begin(), window.end());
  }
}

// Draws half of the units, or as many as have `wanted` windows; returns whether each is drawn.
static std::vector<bool> drawUnits(const TextWindows &text, uint64_t wanted, RandomStream &random) {
  std::vector<uint32_t> order(text.documents.size());
  std::iota(order.begin(), order.end(), 0u);
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.nextBelow(static_cast<uint32_t>(i))]);
  std::vector<uint64_t> windowsOf(order.size());
  for (uint32_t unit : text.units)
    ++windowsOf[unit];
  std::vector<bool> isDrawn(order.size());
  uint64_t windows = 0;
  for (size_t i = 0; i < order.size() && (windows < wanted || i < divideUp(order.size(), 2)); ++i) {
    isDrawn[order[i]] = true;
    windows += windowsOf[order[i]];
  }
  return isDrawn;
}

static void takeOfUnits(const TextWindows &text, uint64_t windows, RandomStream &random,
                        std::vector<int32_t> &tokens) {
  const std::vector<bool> isDrawn = drawUnits(text, windows, random);
  std::vector<uint64_t> drawn;
  for (uint64_t w = 0; w < text.windows(); ++w)
    if (isDrawn[text.units[w]])
      drawn.push_back(w);
  for (uint64_t i = 0; i < windows; ++i) {
    const auto window = text.window(drawn[i * drawn.size() / windows]);
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
                        request.windowTokens,
                        " tokens, expected at least 1 text and at most one per window");
  CalibrationWindows windows;
  std::vector<Source> sources;
  std::vector<uint64_t> available;
  for (const std::string &path : request.textPaths) {
    MOERT_ASSIGN_OR_RETURN(Source read,
                           readText(path, request, tokenizer, windows.texts.emplace_back()));
    available.push_back(read.available);
    sources.push_back(std::move(read));
  }
  std::vector<uint64_t> counts = divideWindows(available, wanted);
  RandomStream random(request.seed);
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].windows.windows() == 0)
      takeAnywhere(sources[i].tokens, counts[i], request.windowTokens, random, windows.tokens);
    else
      takeOfUnits(sources[i].windows, counts[i], random, windows.tokens);
    windows.texts[i].windows = static_cast<uint32_t>(counts[i]);
  }
  if (uint64_t taken = windows.tokens.size() / request.windowTokens; taken < wanted && say)
    say(strCat("the calibration texts have ", taken, " windows of ", request.windowTokens,
               " tokens, ", wanted, " were requested: all are used"));
  return windows;
}

} // namespace moec
