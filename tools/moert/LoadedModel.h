// From an artifact's name to a loaded engine, with what a person should see on the way: the account
// of memory before loading, progress while it takes time.
#pragma once

#include "moert/Engine.h"

#include <memory>
#include <string>

namespace moert::cli {

/// Model and engine in the order in which they have to end. Sessions end before it.
struct LoadedModel {
  std::unique_ptr<Model> model;
  EngineOptions options;
  MemoryAccount account;
  std::unique_ptr<Engine> engine;
};

/// Prints the account to standard error: items, bytes, the total beside the budget. `title` says
/// whose it is where there are two.
void printAccount(const MemoryAccount &account, const std::string &title);

/// Accounts, prints and loads.
Result<LoadedModel> loadModel(std::unique_ptr<Model> model, const EngineOptions &options,
                              const std::string &title = "memory");

/// Refuses, naming the artifact, where it has no tokenizer but text is to be read or written.
Result<const Tokenizer *> tokenizerOf(const Model &model, const std::string &neededFor);

/// The plan that was chosen when it was loaded.
const Plan &planOf(const LoadedModel &loaded);

/// The largest resident set of this process so far, as the system saw it; 0 where it does not say.
uint64_t peakMemoryBytes();

} // namespace moert::cli
