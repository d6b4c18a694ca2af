// Assigns windows of texts to their uses. Calibration has seen some; the search measures on others;
// acceptance tests use whole units (TextWindows.h: the windows of a document) that neither has
// seen: from acceptance texts or, without any, set aside from the calibration texts.
#pragma once

#include "compiler/profile/SeenText.h"
#include "runtime/base/Status.h"
#include "runtime/evaluation/RatioBound.h"
#include "runtime/evaluation/TextWindows.h"
#include "runtime/text/tokenizer/Tokenizer.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// A window of the search on images: an image's number and its class.
constexpr uint32_t kImageWindowTokens = 2;

/// How much of the texts is used, with the reason for each number.
struct TextAmounts {
  uint32_t windowTokens = 512; // As in `moert eval`.
  /// The search's losses only have to put assignments in the right order: acceptance tests show how
  /// far they are from the losses on the acceptance text. With 48 windows a loss of 2% is measured
  /// to within some 0.17%, and a measurement of the bundled model takes 5 s of one core.
  uint32_t searchWindows = 48;
  /// Probes measure divergence, which is far less noisy than loss: with 12 windows a layer's is
  /// within some 4%. A quarter of the search's (--search-windows).
  uint32_t probeWindows = 12;
  /// Set aside if there are no acceptance texts: enough for a narrow bound.
  uint32_t setAsideWindows = 192;
  /// From the acceptance texts, whole units evenly spaced: the bound of a loss of 1% is some
  /// 0.15% above it, and each acceptance test evaluates them.
  uint32_t acceptanceWindows = 256;
  /// The acceptance tests use items, and no windows.
  bool isAcceptedOnItems = false;
};

/// Fewer windows cannot put the search's candidates in order, even by their divergence.
constexpr uint64_t kLeastWindows = 10;

/// A text that was read, or a file of items.
struct SearchText {
  std::string name;  // The file's name without its directory.
  uint64_t hash = 0; // XXH3-64 of its bytes.
  uint64_t bytes = 0;
  moert::TextWindows windows; // Of TextAmounts::windowTokens.
  /// These are calibration's windows, and the search measures on them nevertheless.
  bool isOfCalibration = false;
  bool isSelfWritten = false; // By the checkpoint: a document for each window.
  /// The reference's loss on each window in nats, the bits of what scoring it gives. Empty: not
  /// known.
  std::vector<double> referenceNats;
};

/// Windows, one after another; a list for each text, empty ones included.
struct WindowSet {
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<uint32_t>> indices; // Per text: its windows in this set, ascending.
  std::vector<std::vector<uint32_t>> units;   // Parallel to indices: the window's unit in the text.
  std::vector<std::vector<double>> referenceNats; // Parallel to indices; empty lists: not known.
  std::vector<uint64_t> documents;                // Per text: documents in the units of this set.
  std::vector<moert::DocumentId> documentIds;     // All documents in the units.
  uint64_t windows = 0;

  uint64_t unitCount() const;
  uint64_t documentCount() const;
  /// The reference's losses of all windows, text after text; nullopt unless all are known.
  std::optional<std::vector<double>> knownNats() const;
};

struct SearchWindows {
  WindowSet probe;      // The search's windows that probes measure on too...
  WindowSet rest;       // ...and the others.
  WindowSet acceptance; // From the acceptance texts, or from the calibration texts.
  bool isSetAside = false;

  uint64_t searchWindows() const { return probe.windows + rest.windows; }
  /// Whether the search's windows are enough for a bound of a loss. Fewer only order candidates.
  bool hasBound() const { return searchWindows() >= moert::kMinimumBoundUnits; }
};

/// The options that give a search on these texts more windows, as in "... helps".
std::string moreSearchText(std::span<const SearchText> texts, bool isSetAside);

/// Refuses two texts of the same content: measuring on the second adds no information.
moert::Status checkDistinct(std::span<const SearchText> texts, std::span<const std::string> paths);

/// A file's name without its directory, as an artifact may carry it; refuses others.
moert::Result<std::string> nameOfText(const std::string &path);

/// Reads texts as documents (TextDocuments.h) and cuts them into windows.
moert::Result<std::vector<SearchText>> readSearchTexts(std::span<const std::string> paths,
                                                       std::string_view documentSeparator,
                                                       const moert::WindowCutter &cutter);

/// Calibration's own tokens, for a search that has no text; each window is a unit.
SearchText textOfCalibration(std::string name, std::vector<int32_t> tokens, uint32_t windowTokens);

/// calibrationTokens: the windows that calibration has seen, one after another; windows that share
/// 16 tokens in a row with them are left out of the search, and units with such a window out of the
/// acceptance. Units of acceptance texts are also left out if they share 16 tokens in a row with
/// the search's windows. acceptanceTexts may be empty; files of items are compared by content only.
/// Refuses texts of both kinds with the same content, fewer than kLeastWindows for the search and
/// fewer than kMinimumBoundUnits for the acceptance.
moert::Result<SearchWindows> chooseWindows(std::span<const SearchText> texts,
                                           std::span<const SearchText> acceptanceTexts,
                                           std::span<const int32_t> calibrationTokens,
                                           uint32_t calibrationWindowTokens,
                                           const TextAmounts &amounts);

/// What the search has read, beside calibration's windows.
SeenText seenBySearch(const SearchWindows &windows, uint32_t windowTokens);

/// Finds items of which calibration or the search has read a part: 16 tokens in a row that one of
/// their windows contains too. A run that more than two items contain does not count, since it
/// belongs to the prompt's wording and not to the item.
std::vector<bool> findSeenItems(std::span<const std::vector<int32_t>> items,
                                std::span<const int32_t> calibrationTokens,
                                uint32_t calibrationWindowTokens, const SearchWindows &windows,
                                uint32_t windowTokens);

} // namespace moec
