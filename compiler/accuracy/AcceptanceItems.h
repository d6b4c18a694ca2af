// The items of the acceptance tests: questions with choices or answers, read and tokenized
// before any other work begins.
#pragma once

#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/import/Checkpoint.h"
#include "compiler/search/AcceptanceTurn.h"
#include "runtime/evaluation/EvaluationSet.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moec {

/// Not movable: the set refers to the tokenizer, which refers to its table.
struct AcceptanceItems {
  std::vector<std::byte> table;
  std::optional<moert::Tokenizer> tokenizer;
  std::optional<moert::EvaluationSet> set;
  std::vector<uint32_t> kept;    // Items that calibration and search have not read; ascending.
  std::vector<SearchText> files; // Without tokens.
  std::vector<std::pair<std::string, std::string>> options; // As stored in an artifact.

  AcceptanceItems() = default;
  AcceptanceItems(const AcceptanceItems &) = delete;
  AcceptanceItems &operator=(const AcceptanceItems &) = delete;

  /// Removes the seen items. Refuses fewer remaining items than a bound needs.
  moert::Status leaveOut(const std::vector<bool> &seen);
  /// Refuses so few items that at the turn's level no bound could meet the target, even if the
  /// reference has points in all of them.
  moert::Status checkReach(double target, const AcceptanceTurn &turn) const;
  /// The kept items of a file, counted from the file's first item.
  std::vector<uint32_t> keptOf(size_t file) const;
  std::vector<moert::DocumentId> keptIds() const;
};

/// The request's acceptance texts as items of its metric; table: the checkpoint's tokenizer;
/// images: those of a vision model, which needs no table. Refuses, naming file and line, lines that
/// are not items, items that are too long for the model, too few items for a bound, and names and
/// options that an artifact cannot store.
moert::Result<std::unique_ptr<AcceptanceItems>>
readAcceptanceItems(const AccurateCompileRequest &request, const ModelDescription &model,
                    std::vector<std::byte> table, std::optional<moert::ImageModel> images = {});

} // namespace moec
