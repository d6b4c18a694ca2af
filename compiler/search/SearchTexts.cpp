#include "compiler/search/SearchTexts.h"

#include "compiler/search/FreeUnits.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/evaluation/TextDocuments.h"
#include "runtime/evaluation/UnitSpread.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
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
  const std::filesystem::path whole(path); // A folder's may end with '/'.
  std::string name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  MOERT_RETURN_IF_ERROR(checkName(name));
  return name;
}

Result<std::vector<SearchText>> readSearchTexts(std::span<const std::string> paths,
                                                std::string_view documentSeparator,
                                                const WindowCutter &cutter) {
  std::vector<SearchText> texts;
  for (const std::string &path : paths) {
    MOERT_ASSIGN_OR_RETURN(const TextFile file, readTextFile(path, documentSeparator));
    SearchText &text = texts.emplace_back();
    MOERT_ASSIGN_OR_RETURN(text.name, nameOfText(path));
    text.hash = file.hash;
    text.bytes = file.bytes;
    auto windows = cutter.cut(file.documents);
    if (!windows.isOk())
      return windows.status().withContext(file.name);
    text.windows = std::move(windows).value();
  }
  MOERT_RETURN_IF_ERROR(checkDistinct(texts, paths));
  return texts;
}

SearchText textOfCalibration(std::string name, std::vector<int32_t> tokens, uint32_t windowTokens) {
  SearchText text;
  text.name = std::move(name);
  text.windows = cutWindows(std::vector<std::vector<int32_t>>{std::move(tokens)}, {}, windowTokens);
  std::iota(text.windows.units.begin(), text.windows.units.end(), 0);
  text.windows.documents.assign(text.windows.units.size(), 1);
  text.windows.documentIds.assign(text.windows.units.size(), {});
  text.isOfCalibration = true;
  return text;
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

} // namespace

static std::span<const int32_t> tokensAt(std::span<const SearchText> texts, const Place &place) {
  return texts[place.text].windows.window(place.window);
}

// Every window of the texts that `seen` does not overlap; copies of one add nothing.
static std::vector<Place> freePlaces(std::span<const SearchText> texts, const SeenText &seen) {
  std::vector<Place> places;
  std::unordered_set<uint64_t> taken;
  for (size_t t = 0; t < texts.size(); ++t)
    for (size_t w = 0; w < texts[t].windows.windows(); ++w) {
      const auto tokens = tokensAt(texts, {t, w});
      if ((texts[t].isOfCalibration || !seen.contains(tokens)) &&
          taken.insert(checksum64(std::as_bytes(tokens))).second)
        places.push_back({t, w});
    }
  return places;
}

static std::vector<UnitPlace> freeUnitsOf(std::span<const SearchText> texts, const SeenText &seen) {
  std::vector<const TextWindows *> windows;
  for (const SearchText &text : texts)
    windows.push_back(&text.windows);
  return freeUnits(windows, seen);
}

// Whether the i-th of `size` is among `count` evenly spaced ones: where i * count / size steps up.
static bool isTakenEvenly(size_t i, size_t count, size_t size) {
  return (i + 1) * count / size > i * count / size;
}

// Takes `count` of the places, evenly spaced over all texts, and leaves the others.
static std::vector<Place> takeEvenly(std::vector<Place> &places, size_t count) {
  count = std::min(count, places.size());
  std::vector<Place> taken, left;
  for (size_t i = 0; i < places.size(); ++i)
    (isTakenEvenly(i, count, places.size()) ? taken : left).push_back(places[i]);
  places = std::move(left);
  return taken;
}

// Units, evenly spaced over all texts and each with all its windows: as many as have `wanted`
// windows or fewer, but kMinimumBoundUnits where these have no more than `most`.
static std::vector<Place> takeUnits(const std::vector<UnitPlace> &units, size_t wanted,
                                    size_t most) {
  size_t all = 0;
  for (const UnitPlace &unit : units)
    all += unit.windows;
  // A first estimate: evenly spaced units have nearly a proportional part of all windows.
  size_t count = all <= wanted ? units.size() : divideUp(units.size() * wanted, all);
  count = std::min(std::max<size_t>(count, kMinimumBoundUnits), units.size());
  for (;; --count) {
    std::vector<Place> places;
    for (size_t i = 0; i < units.size(); ++i)
      for (size_t w = 0; w < units[i].windows && isTakenEvenly(i, count, units.size()); ++w)
        places.push_back({units[i].text, units[i].firstWindow + w});
    if (places.size() <= most && (places.size() <= wanted || count <= kMinimumBoundUnits))
      return places;
  }
}

static WindowSet windowsAt(std::span<const SearchText> texts, std::span<const Place> places) {
  WindowSet set;
  set.ids.resize(texts.size());
  set.indices.resize(texts.size());
  set.units.resize(texts.size());
  set.referenceNats.resize(texts.size());
  set.documents.resize(texts.size());
  for (const Place &place : places) {
    const TextWindows &windows = texts[place.text].windows;
    const auto tokens = windows.window(place.window);
    const uint32_t unit = windows.units[place.window];
    set.ids[place.text].insert(set.ids[place.text].end(), tokens.begin(), tokens.end());
    set.indices[place.text].push_back(uint32_t(place.window));
    if (const std::vector<double> &nats = texts[place.text].referenceNats; !nats.empty())
      set.referenceNats[place.text].push_back(nats[place.window]);
    if (set.units[place.text].empty() || set.units[place.text].back() != unit) {
      const std::span<const DocumentId> documents = windows.documentsOf(unit);
      set.documents[place.text] += documents.size();
      set.documentIds.insert(set.documentIds.end(), documents.begin(), documents.end());
    }
    set.units[place.text].push_back(unit);
  }
  set.windows = places.size();
  return set;
}

uint64_t WindowSet::unitCount() const {
  uint64_t count = 0;
  for (const std::vector<uint32_t> &ofText : units)
    count += unitCountOfWindows(ofText);
  return count;
}

uint64_t WindowSet::documentCount() const {
  return std::accumulate(documents.begin(), documents.end(), uint64_t(0));
}

std::optional<std::vector<double>> WindowSet::knownNats() const {
  std::vector<double> known;
  for (const std::vector<double> &ofText : referenceNats)
    known.insert(known.end(), ofText.begin(), ofText.end());
  return known.size() == windows ? std::optional(std::move(known)) : std::nullopt;
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

// Call before the search takes its windows: removes what is set aside from `places`.
static WindowSet setAside(std::span<const SearchText> texts, const SeenText &seen,
                          std::vector<Place> &places, const TextAmounts &amounts) {
  const size_t half = places.size() / 2;
  const std::vector<Place> taken =
      takeUnits(freeUnitsOf(texts, seen), std::min<size_t>(amounts.setAsideWindows, half), half);
  WindowSet set = windowsAt(texts, taken);
  // A text may repeat itself.
  SeenText accepted;
  for (const std::vector<int32_t> &ids : set.ids)
    accepted.add(ids, amounts.windowTokens);
  std::erase_if(places,
                [&](const Place &place) { return accepted.contains(tokensAt(texts, place)); });
  return set;
}

static bool areSelfWritten(std::span<const SearchText> texts) {
  return !texts.empty() && texts.front().isSelfWritten;
}

std::string moreSearchText(std::span<const SearchText> texts, bool isSetAside) {
  if (areSelfWritten(texts))
    return "a larger --self-text";
  if (!texts.empty() && texts.front().isOfCalibration)
    return "--calibration-text, or a profile of more tokens,";
  return isSetAside ? "more in --calibration-text, or --eval-text in place of what is set aside,"
                    : "more in --calibration-text";
}

// Documents of which about `needed` are usable, where `found` of `given` are, with a quarter more
// for chance.
static uint64_t documentsFor(uint64_t needed, uint64_t found, uint64_t given) {
  return divideUp(5 * needed * given, 4 * std::max<uint64_t>(found, 1));
}

// --self-text N that gives the search enough windows. A half of N is for the acceptance, unless
// that has a text of its own. Beyond what calibration and `searchWindows`, and a quarter more,
// read, only a fifth of N is for them. calibrated: documents that calibration has read.
static uint64_t selfTextForSearch(const SearchText &text, bool isHalved, uint64_t calibrated,
                                  uint64_t found, uint64_t searchWindows) {
  const uint64_t written = text.windows.windows();
  const uint64_t left = written - std::min(calibrated, written);
  const uint64_t needed =
      calibrated + documentsFor(kLeastWindows, found, std::max(left, kLeastWindows));
  if (needed > calibrated + 5 * searchWindows / 4)
    return 5 * needed;
  return needed * (isHalved ? 2 : 1);
}

static Status checkSearchWindows(std::span<const SearchText> texts,
                                 std::span<const SearchText> acceptanceTexts, uint64_t calibrated,
                                 uint64_t found, bool isSetAside, const TextAmounts &amounts) {
  if (found >= kLeastWindows)
    return {};
  const std::string larger =
      areSelfWritten(texts)
          ? strCat(", such as --self-text ",
                   selfTextForSearch(texts.front(), areSelfWritten(acceptanceTexts), calibrated,
                                     found, amounts.searchWindows))
          : "";
  return invalidInput("the texts have ", found, " windows of ", amounts.windowTokens,
                      " tokens for the search that repeat neither calibration nor the acceptance; "
                      "expected at least ",
                      kLeastWindows, ": ", moreSearchText(texts, isSetAside), " helps", larger);
}

static Status checkUnits(std::span<const SearchText> texts,
                         std::span<const SearchText> acceptanceTexts, const SearchWindows &windows,
                         const TextAmounts &amounts) {
  const uint64_t units = windows.acceptance.unitCount();
  if (amounts.isAcceptedOnItems || units >= kMinimumBoundUnits)
    return {};
  const std::string found =
      strCat(units, " units (", windows.acceptance.documentCount(), " documents, ",
             windows.acceptance.windows, " windows of ", amounts.windowTokens, " tokens)");
  const std::string expected =
      strCat("expected at least ", kMinimumBoundUnits,
             ": a unit is a document, or a window of short "
             "documents. More documents help, not longer ones: a JSONL file with one document a "
             "line, or --document-separator");
  if (areSelfWritten(acceptanceTexts)) {
    const uint64_t larger =
        documentsFor(kMinimumBoundUnits, units, acceptanceTexts.front().windows.windows()) *
        (areSelfWritten(texts) ? 2 : 1);
    return invalidInput("the self-written text has ", found,
                        " that calibration and the search have not read, expected at least ",
                        kMinimumBoundUnits, ": a larger --self-text helps, such as --self-text ",
                        larger);
  }
  if (windows.isSetAside)
    return invalidInput("the calibration texts have ", found, " to set aside for the acceptance, ",
                        expected, "; or --eval-text");
  return invalidInput("--eval-text has ", found, " that calibration and the search have not read, ",
                      expected);
}

Result<SearchWindows> chooseWindows(std::span<const SearchText> texts,
                                    std::span<const SearchText> acceptanceTexts,
                                    std::span<const int32_t> calibrationTokens,
                                    uint32_t calibrationWindowTokens, const TextAmounts &amounts) {
  MOERT_RETURN_IF_ERROR(checkDistinct(texts, acceptanceTexts));
  SeenText seen;
  seen.add(calibrationTokens, calibrationWindowTokens);
  std::vector<Place> places = freePlaces(texts, seen);
  SearchWindows result;
  result.isSetAside = acceptanceTexts.empty() && !amounts.isAcceptedOnItems;
  if (result.isSetAside)
    result.acceptance = setAside(texts, seen, places, amounts);
  std::vector<Place> search = takeEvenly(places, amounts.searchWindows);
  if (!result.isSetAside && !amounts.isAcceptedOnItems) {
    // Texts with different contents may still have parts in common with the search's texts.
    for (const std::vector<int32_t> &ids : windowsAt(texts, search).ids)
      seen.add(ids, amounts.windowTokens);
    result.acceptance = windowsAt(acceptanceTexts, takeUnits(freeUnitsOf(acceptanceTexts, seen),
                                                             amounts.acceptanceWindows, SIZE_MAX));
  }
  const uint64_t calibrated = calibrationTokens.size() / std::max(1u, calibrationWindowTokens);
  MOERT_RETURN_IF_ERROR(checkSearchWindows(texts, acceptanceTexts, calibrated, search.size(),
                                           result.isSetAside, amounts));
  MOERT_RETURN_IF_ERROR(checkUnits(texts, acceptanceTexts, result, amounts));
  std::vector<Place> probe = takeEvenly(search, amounts.probeWindows);
  result.probe = windowsAt(texts, probe);
  result.rest = windowsAt(texts, search);
  return result;
}

SeenText seenBySearch(const SearchWindows &windows, uint32_t windowTokens) {
  SeenText seen;
  for (const WindowSet *set : {&windows.probe, &windows.rest})
    for (const std::vector<int32_t> &ids : set->ids)
      seen.add(ids, windowTokens);
  return seen;
}

// The distinct runs of an item.
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
  constexpr uint32_t kMostOwners = 2; // An item may occur twice.
  SeenText seen = seenBySearch(windows, windowTokens);
  seen.add(calibrationTokens, calibrationWindowTokens);
  std::unordered_map<uint64_t, uint32_t> owners; // Per seen run: how many items contain it.
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
