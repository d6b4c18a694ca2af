// The functions of the filters that are not in Filters.cpp, by what they are applied to.
#pragma once

#include "runtime/chat/Builtins.h"

namespace moert::chat {

// Texts: TextFilters.cpp.
Result<Value> filterUpper(const BuiltinCall &call);
Result<Value> filterLower(const BuiltinCall &call);
Result<Value> filterCapitalize(const BuiltinCall &call);
Result<Value> filterTitle(const BuiltinCall &call);
Result<Value> filterTrim(const BuiltinCall &call);
Result<Value> filterReplace(const BuiltinCall &call);
Result<Value> filterIndent(const BuiltinCall &call);
Result<Value> filterCenter(const BuiltinCall &call);
Result<Value> filterEscape(const BuiltinCall &call);
Result<Value> filterFormat(const BuiltinCall &call);
Result<Value> filterTruncate(const BuiltinCall &call);
Result<Value> filterString(const BuiltinCall &call);

// Lists: ListFilters.cpp.
Result<Value> filterFirst(const BuiltinCall &call);
Result<Value> filterLast(const BuiltinCall &call);
Result<Value> filterJoin(const BuiltinCall &call);
Result<Value> filterList(const BuiltinCall &call);
Result<Value> filterReverse(const BuiltinCall &call);
Result<Value> filterSort(const BuiltinCall &call);
Result<Value> filterDictsort(const BuiltinCall &call);
Result<Value> filterUnique(const BuiltinCall &call);
Result<Value> filterMin(const BuiltinCall &call);
Result<Value> filterMax(const BuiltinCall &call);
Result<Value> filterSum(const BuiltinCall &call);
Result<Value> filterItems(const BuiltinCall &call);
Result<Value> filterBatch(const BuiltinCall &call);
Result<Value> filterSlice(const BuiltinCall &call);

// Lists, by other filters and tests: SelectFilters.cpp.
Result<Value> filterMap(const BuiltinCall &call);
Result<Value> filterSelect(const BuiltinCall &call);
Result<Value> filterReject(const BuiltinCall &call);
Result<Value> filterSelectattr(const BuiltinCall &call);
Result<Value> filterRejectattr(const BuiltinCall &call);

/// item.a.b of an attribute path "a.b"; parts that are numbers are indices. Undefined members
/// become `otherwise`, if there is one.
Result<Value> attributePath(const Value &item, const Value &path, Evaluator &evaluator,
                            const Value *otherwise = nullptr);

/// `text` with at most `count` occurrences of `from` replaced; a negative count means all.
Result<Value> replaceText(const std::string &text, const std::string &from, const std::string &to,
                          int64_t count, Allowance &allowance);

} // namespace moert::chat
