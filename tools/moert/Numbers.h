// The figures of a run, as text (standard error) and as JSON.
#pragma once

#include "runtime/base/JsonWriter.h"
#include "runtime/serving/Generation.h"
#include "tools/moert/LoadedModel.h"

#include <string>

namespace moert::cli {

/// "12.3", "0.123", "1234": three significant digits at least.
std::string formatNumber(double value);

/// "87.5%"
std::string formatPercent(double fraction);

/// Speeds, hit rate, bytes read, peak memory beside the budget, I/O and kernels.
void printNumbers(const GenerationNumbers &numbers, const LoadedModel &loaded);

/// The most important of them in three lines; `end`: why the text ended.
void printBriefNumbers(const GenerationNumbers &numbers, const LoadedModel &loaded,
                       const std::string &end);

/// The same as keys of an open object.
void writeNumbers(JsonWriter &json, const GenerationNumbers &numbers, const LoadedModel &loaded);

/// Plan, budget, peak memory, I/O, kernels and threads, as keys of an open object. The budget is
/// the process's: with a second model loaded, the sum of both.
void writeMachine(JsonWriter &json, const LoadedModel &loaded, const LoadedModel *second = nullptr);

/// One line: experts that a miss rule changed. Empty if there are none.
std::string missLine(const LayerTotals &totals);

/// One line: experts resident in time, useful prefetches, bytes prefetched per token.
std::string prefetchLine(const LayerTotals &totals, uint64_t tokens);

/// The lines "plan ...", "memory  peak 34.5 MiB of 40.0 MiB ..." and "io ...".
std::string machineLines(const LoadedModel &loaded);

} // namespace moert::cli
