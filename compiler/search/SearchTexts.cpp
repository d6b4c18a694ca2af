#include "compiler/search/SearchTexts.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

using namespace moert;

namespace moec {

// The artifact names the texts that it was measured on, and a name is shown on terminals.
static Status checkName(const std::string &name) {
  MOERT_RETURN_IF_ERROR(checkUtf8(name, "the name of a text's file"));
  std::string shown = name;
  for (char &c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      c = '?';
  if (shown != name)
    return invalidInput("the name of the text's file '", shown,
                        "' has control characters, shown as '?', expected none");
  return {};
}

Result<std::string> nameOfText(const std::string &path) {
  std::string name = std::filesystem::path(path).filename().string();
  MOERT_RETURN_IF_ERROR(checkName(name));
  return name;
}

Result<std::vector<SearchText>> readSearchTexts(std::span<const std::string> paths,
                                                const Tokenizer &tokenizer) {
  std::vector<SearchText> texts;
  for (const std::string &path : paths) {
    MOERT_ASSIGN_OR_RETURN(std::string content, readInput(path));
    MOERT_RETURN_IF_ERROR(checkUtf8(content, inputName(path)));
    SearchText &text = texts.emplace_back();
    MOERT_ASSIGN_OR_RETURN(text.name, nameOfText(path));
    text.hash = checksum64(std::as_bytes(std::span(content)));
    text.bytes = content.size();
    MOERT_ASSIGN_OR_RETURN(text.tokens, tokenizer.encode(content, true));
  }
  MOERT_RETURN_IF_ERROR(checkDistinct(texts, paths));
  return texts;
}

Status checkDistinct(std::span<const SearchText> texts, std::span<const std::string> paths) {
  for (size_t i = 0; i < texts.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (texts[i].hash == texts[j].hash && texts[i].bytes == texts[j].bytes)
        return invalidInput(inputName(paths[i]), " has the same content as ", inputName(paths[j]),
                            ", expected different texts");
  return {};
}

namespace {

struct Place {
  size_t text, window;
};

/// What was seen so far, as the hashes of every 16 tokens in a row. A window that shares none with
/// it does not overlap it, wherever the windows that were seen began.
class SeenText {
public:
  /// Windows, one behind the other.
  void add(std::span<const int32_t> tokens, uint32_t windowTokens) {
    for (size_t begin = 0; begin + windowTokens <= tokens.size(); begin += windowTokens)
      for (size_t i = begin; i + kRun <= begin + windowTokens; ++i)
        hashes.insert(hashOf(tokens.subspan(i, kRun)));
  }

  bool contains(std::span<const int32_t> window) const {
    for (size_t i = 0; i + kRun <= window.size(); ++i)
      if (hashes.contains(hashOf(window.subspan(i, kRun))))
        return true;
    return false;
  }

  bool containsRun(uint64_t hash) const { return hashes.contains(hash); }

  static constexpr size_t kRun = 16;
  static uint64_t hashOf(std::span<const int32_t> run) { return checksum64(std::as_bytes(run)); }

private:
  std::unordered_set<uint64_t> hashes;
};

} // namespace

static std::span<const int32_t> tokensAt(std::span<const SearchText> texts, const Place &place,
                                         uint32_t windowTokens) {
  return std::span(texts[place.text].tokens).subspan(place.window * windowTokens, windowTokens);
}

// Every window of the texts that `seen` does not overlap.
static std::vector<Place> freePlaces(std::span<const SearchText> texts, const SeenText &seen,
                                     uint32_t windowTokens) {
  std::vector<Place> places;
  for (size_t t = 0; t < texts.size(); ++t)
    for (size_t w = 0; w < texts[t].tokens.size() / windowTokens; ++w)
      if (texts[t].isOfCalibration || !seen.contains(tokensAt(texts, {t, w}, windowTokens)))
        places.push_back({t, w});
  return places;
}

// `count` of the places, evenly spaced over all texts; the others are left.
static std::vector<Place> takeEvenly(std::vector<Place> &places, size_t count) {
  count = std::min(count, places.size());
  std::vector<Place> taken, left;
  for (size_t i = 0; i < places.size(); ++i) {
    // The i-th is taken where the count so far steps up.
    bool isTaken = (i + 1) * count / places.size() > i * count / places.size();
    (isTaken ? taken : left).push_back(places[i]);
  }
  places = std::move(left);
  return taken;
}

static WindowSet windowsAt(std::span<const SearchText> texts, std::span<const Place> places,
                           uint32_t windowTokens) {
  WindowSet set;
  set.ids.resize(texts.size());
  set.indices.resize(texts.size());
  for (const Place &place : places) {
    const auto tokens = tokensAt(texts, place, windowTokens);
    set.ids[place.text].insert(set.ids[place.text].end(), tokens.begin(), tokens.end());
    set.indices[place.text].push_back(uint32_t(place.window));
  }
  set.windows = places.size();
  return set;
}

static Status checkDistinct(std::span<const SearchText> texts,
                            std::span<const SearchText> acceptanceTexts) {
  for (const SearchText &accepted : acceptanceTexts)
    for (const SearchText &text : texts)
      if (accepted.hash == text.hash && accepted.bytes == text.bytes)
        return invalidInput("the acceptance text ", accepted.name, " is the calibration text ",
                            text.name, ", expected text that calibration has not seen");
  return {};
}

Result<SearchWindows> chooseWindows(std::span<const SearchText> texts,
                                    std::span<const SearchText> acceptanceTexts,
                                    std::span<const int32_t> calibrationTokens,
                                    uint32_t calibrationWindowTokens, const TextAmounts &amounts) {
  MOERT_RETURN_IF_ERROR(checkDistinct(texts, acceptanceTexts));
  const uint32_t length = amounts.windowTokens;
  SeenText seen;
  seen.add(calibrationTokens, calibrationWindowTokens);
  std::vector<Place> places = freePlaces(texts, seen, length);
  SearchWindows result;
  result.isSetAside = acceptanceTexts.empty() && !amounts.isAcceptedOnItems;
  if (result.isSetAside) {
    size_t count = std::min<size_t>(amounts.setAsideWindows, places.size() / 2);
    result.acceptance = windowsAt(texts, takeEvenly(places, count), length);
    // A text may repeat itself.
    SeenText accepted;
    for (const std::vector<int32_t> &ids : result.acceptance.ids)
      accepted.add(ids, length);
    std::erase_if(places, [&](const Place &place) {
      return accepted.contains(tokensAt(texts, place, length));
    });
  }
  std::vector<Place> search = takeEvenly(places, amounts.searchWindows);
  if (!result.isSetAside && !amounts.isAcceptedOnItems) {
    // A text of another content may still have parts in common with those of the search.
    for (const std::vector<int32_t> &ids : windowsAt(texts, search, length).ids)
      seen.add(ids, length);
    std::vector<Place> unseen = freePlaces(acceptanceTexts, seen, length);
    result.acceptance =
        windowsAt(acceptanceTexts, takeEvenly(unseen, amounts.acceptanceWindows), length);
  }
  if (amounts.isAcceptedOnItems && search.size() < kLeastWindows)
    return invalidInput("the texts have ", search.size(), " windows of ", length,
                        " tokens for the search that do not repeat calibration; expected at least ",
                        kLeastWindows);
  if (!amounts.isAcceptedOnItems &&
      (search.size() < kLeastWindows || result.acceptance.windows < kLeastWindows))
    return invalidInput(
        "the texts have ", search.size(), " windows of ", length, " tokens for the search and ",
        result.acceptance.windows,
        " for the acceptance that repeat neither each other nor calibration; expected at least ",
        kLeastWindows, " of each");
  std::vector<Place> probe = takeEvenly(search, amounts.probeWindows);
  result.probe = windowsAt(texts, probe, length);
  result.rest = windowsAt(texts, search, length);
  return result;
}

// An item's runs, each once.
static std::unordered_set<uint64_t> runsOf(std::span<const int32_t> item) {
  std::unordered_set<uint64_t> runs;
  for (size_t i = 0; i + SeenText::kRun <= item.size(); ++i)
    runs.insert(SeenText::hashOf(item.subspan(i, SeenText::kRun)));
  return runs;
}

std::vector<bool> findSeenItems(std::span<const std::vector<int32_t>> items,
                                std::span<const int32_t> calibrationTokens,
                                uint32_t calibrationWindowTokens, const SearchWindows &windows,
                                uint32_t windowTokens) {
  constexpr uint32_t kMostOwners = 2; // An item may be there twice.
  SeenText seen;
  seen.add(calibrationTokens, calibrationWindowTokens);
  for (const WindowSet *set : {&windows.probe, &windows.rest})
    for (const std::vector<int32_t> &ids : set->ids)
      seen.add(ids, windowTokens);
  std::unordered_map<uint64_t, uint32_t> owners; // Of the runs that were seen.
  for (const std::vector<int32_t> &item : items)
    for (uint64_t run : runsOf(item))
      if (seen.containsRun(run))
        ++owners[run];
  std::vector<bool> isSeen;
  for (const std::vector<int32_t> &item : items) {
    const std::unordered_set<uint64_t> runs = runsOf(item);
    isSeen.push_back(std::any_of(runs.begin(), runs.end(), [&](uint64_t run) {
      auto found = owners.find(run);
      return found != owners.end() && found->second <= kMostOwners;
    }));
  }
  return isSeen;
}

} // namespace moec
