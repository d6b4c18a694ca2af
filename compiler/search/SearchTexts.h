// Which windows of which text serve what. Calibration has seen some; the search measures on others;
// acceptance is on whole units (TextWindows.h: the windows of a document) that neither has seen: of
// texts of their own, or, where there are none, set aside from the calibration texts.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/evaluation/RatioBound.h"
#include "runtime/evaluation/TextWindows.h"
#include "runtime/tokenizer/Tokenizer.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// How much of the texts is used; each number's reason stands beside it.
struct TextAmounts {
  uint32_t windowTokens = 512; // What `moert eval` measures with.
  /// What the search measures only has to put assignments in the right order: how far its losses
  /// are from those of the acceptance is seen by looking. With 64 windows a loss of 2% is known to
  /// within some 0.15%, and a measurement of the bundled model takes 6 s of one core.
  uint32_t searchWindows = 64;
  /// Probes measure divergence, which is far less noisy than loss: with 24 windows a layer's is
  /// within some 3%.
  uint32_t probeWindows = 24;
  /// Set aside where there is no text for the acceptance alone: enough for a narrow bound.
  uint32_t setAsideWindows = 192;
  /// Of the texts for the acceptance, whole units evenly spaced: the bound of a loss of 1% is some
  /// 0.15% above it, and each look executes them twice.
  uint32_t acceptanceWindows = 256;
  /// The loss is accepted on items: no windows serve that.
  bool isAcceptedOnItems = false;
};

/// Fewer windows cannot put the search's candidates in order.
constexpr uint64_t kLeastWindows = 10;

/// A text that was read, or a file of items.
struct SearchText {
  std::string name;  // The file's name without its directory.
  uint64_t hash = 0; // XXH3-64 of its bytes.
  uint64_t bytes = 0;
  moert::TextWindows windows; // Of TextAmounts::windowTokens.
  /// It is calibration's windows, and the search measures on it all the same.
  bool isOfCalibration = false;
};

/// Windows, one after another; a list for each text, empty ones included.
struct WindowSet {
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<uint32_t>> indices; // Of each text's windows here, ascending.
  std::vector<std::vector<uint32_t>> units;   // Of each of these windows: its unit in the text.
  std::vector<uint64_t> documents;            // Of each text: those in the units that are here.
  uint64_t windows = 0;

  uint64_t unitCount() const;
  uint64_t documentCount() const;
};

struct SearchWindows {
  WindowSet probe;      // The search's windows that probes measure on too...
  WindowSet rest;       // ...and the others.
  WindowSet acceptance; // Of the acceptance texts, or of the calibration texts.
  bool isSetAside = false;
};

/// Refuses two texts of the same content: what is measured on one says nothing more on the other.
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
/// acceptance. Units of acceptance texts are also left out where they share as much with the
/// search's windows. acceptanceTexts may be empty; of items they are compared by content alone.
/// Refuses texts of both kinds with the same content, fewer than kLeastWindows for the search and
/// fewer than kMinimumBoundUnits for the acceptance.
moert::Result<SearchWindows> chooseWindows(std::span<const SearchText> texts,
                                           std::span<const SearchText> acceptanceTexts,
                                           std::span<const int32_t> calibrationTokens,
                                           uint32_t calibrationWindowTokens,
                                           const TextAmounts &amounts);

/// Which of the items calibration or the search has read parts of: 16 tokens in a row that one of
/// their windows has too. What more than two items have in common is how they are asked, not what,
/// and tells nothing.
std::vector<bool> findSeenItems(std::span<const std::vector<int32_t>> items,
                                std::span<const int32_t> calibrationTokens,
                                uint32_t calibrationWindowTokens, const SearchWindows &windows,
                                uint32_t windowTokens);

} // namespace moec
