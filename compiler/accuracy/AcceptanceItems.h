// The items that a loss is accepted on: questions with choices or answers, read and tokenized
// before anything else is done.
#pragma once

#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/import/Checkpoint.h"
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
  std::vector<uint32_t> kept;    // Of the set's items, those that nothing else has read; ascending.
  std::vector<SearchText> files; // Without tokens.
  std::vector<std::pair<std::string, std::string>> options; // As an artifact says them.

  AcceptanceItems() = default;
  AcceptanceItems(const AcceptanceItems &) = delete;
  AcceptanceItems &operator=(const AcceptanceItems &) = delete;

  /// Keeps the others alone. Refuses fewer than have a bound, or one within the target: what so
  /// many items can show if the reference has points in all of them.
  moert::Status leaveOut(const std::vector<bool> &seen, double target);
  /// Of a file, those that were kept, counted from its first.
  std::vector<uint32_t> keptOf(size_t file) const;
};

/// The request's acceptance texts as items of its metric; table: the checkpoint's tokenizer.
/// Refuses, naming file and line, what are none, items that are too long for the model, too few for
/// a bound, and names and options that an artifact cannot carry.
moert::Result<std::unique_ptr<AcceptanceItems>>
readAcceptanceItems(const AccurateCompileRequest &request, const ModelDescription &model,
                    std::vector<std::byte> table);

} // namespace moec
