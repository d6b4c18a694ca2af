// Enumerations whose spellings the runtime's tables have: an attribute has the row's name as a
// keyword, with '_' for '-'.
#pragma once

#include "runtime/policy/EvictionScores.h"
#include "runtime/policy/MissPolicy.h"

#include "mlir/IR/DialectImplementation.h"

#include <algorithm>
#include <string>

namespace mlir::moe {

template <typename Row> std::string keywordOf(const Row &row) {
  std::string keyword(row.name);
  std::replace(keyword.begin(), keyword.end(), '-', '_');
  return keyword;
}

/// The number of the row that the next keyword names.
template <typename Enum, typename Rows>
FailureOr<Enum> parseRow(AsmParser &parser, const Rows &rows) {
  const SMLoc place = parser.getCurrentLocation();
  StringRef keyword;
  if (failed(parser.parseKeyword(&keyword)))
    return failure();
  std::string known;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (keyword == keywordOf(rows[i]))
      return static_cast<Enum>(i);
    known += (i == 0 ? "" : ", ") + keywordOf(rows[i]);
  }
  parser.emitError(place) << "'" << keyword << "', expected one of: " << known;
  return failure();
}

} // namespace mlir::moe
