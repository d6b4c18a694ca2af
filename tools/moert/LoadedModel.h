// Loads an engine from an artifact's name, and prints what users want to see: progress while it
// loads, and before that, if asked, the memory account.
#pragma once

#include "runtime/engine/Engine.h"
#include "tools/moert/EngineFlags.h"

#include <functional>
#include <memory>
#include <string>

namespace moert::cli {

/// The engine must be destroyed before the model, and sessions before the engine.
struct LoadedModel {
  std::unique_ptr<Model> model;
  EngineOptions options;
  MemoryAccount account;
  std::unique_ptr<Engine> engine;
};

/// The account as a table: items, the total and the budget. `title` names the model if there are
/// two. Exact bytes are left out where they have no room in so many columns; 0: any number.
std::string accountText(const MemoryAccount &account, const std::string &title, size_t columns);

/// Engine options for a context of so many tokens.
using OptionsForContext = std::function<EngineOptions(uint32_t tokens)>;

/// The largest of `wanted` and its halves, down to kLeastContext, that the budget has memory for.
/// If there is none, the least one, whose refusal names the smallest budget.
uint32_t contextWithinBudget(const Model &model, uint32_t wanted, const OptionsForContext &options);
constexpr uint32_t kLeastContext = 512;

/// What a command offers to those whose budget is too small: the options that make a context or its
/// caches smaller. "--context".
struct LoadWords {
  std::string title = "memory";
  std::string levers = {};
  std::string furtherLevers = {}; // Text after them, for memory that the context does not take.
};

/// Computes the memory account, prints what the notices have of it and loads the model.
Result<LoadedModel> loadModel(std::unique_ptr<Model> model, const EngineOptions &options,
                              const NoticeFlags &notices, const LoadWords &words);

/// Whether the model computes an input as a whole: with an encoder, or with a prefix whose tokens
/// attend to each other.
bool takesInput(const Model &model);

/// Refuses such a model for a command that continues texts.
Status checkContinuesTexts(const Model &model, const std::string &command);

/// An error that names the artifact if it has no tokenizer, which `neededFor` requires.
Result<const Tokenizer *> tokenizerOf(const Model &model, const std::string &neededFor);

/// The plan that loading chose.
const Plan &planOf(const LoadedModel &loaded);

/// Peak resident set size of this process in bytes; 0 if the system does not report it.
uint64_t peakMemoryBytes();

} // namespace moert::cli
