// Numbers and rows as JSON, written fast: a report on a large model has millions of them.
#pragma once

#include "compiler/report/ReportFacts.h"
#include "runtime/base/JsonWriter.h"

#include <string>
#include <vector>

namespace moec {

/// The shortest decimal that reads back as the same value; "null" for infinity and NaN.
std::string numberJson(double value);

/// Rows that a page has of a table, at most; heat maps of 48 layers of 128 experts have 6,144.
constexpr size_t kMostPageRows = 8192;

/// Writes the key "rows" of an open object; `text` is the writer's output.
void appendRows(moert::JsonWriter &json, std::string &text,
                const std::vector<const std::vector<Value> *> &rows);

} // namespace moec
