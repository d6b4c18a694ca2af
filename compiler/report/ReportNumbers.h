// Numbers and rows as JSON, written fast: a report on a large model has millions of them.
#pragma once

#include "compiler/report/ReportFacts.h"
#include "runtime/base/JsonWriter.h"

#include <string>
#include <vector>

namespace moec {

/// The shortest decimal that reads back as the same value; "null" for infinity and NaN.
std::string numberJson(double value);

/// Writes the key "rows" of an open object; `text` is the writer's output.
void appendRows(moert::JsonWriter &json, std::string &text,
                const std::vector<const std::vector<Value> *> &rows);

} // namespace moec
