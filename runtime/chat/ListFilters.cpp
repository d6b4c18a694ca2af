#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/FilterFunctions.h"
#include "runtime/chat/Printing.h"
#include "runtime/chat/PythonText.h"

#include <algorithm>
#include <unordered_set>

namespace moert::chat {

namespace {

/// What sort, unique, min and max compare: the item or its attribute, in lower case unless they
/// respect case.
Result<Value> sortKey(const Value &item, const Value *attribute, bool isCaseSensitive,
                      Evaluator &evaluator) {
  Value key = item;
  if (attribute && !attribute->isNone()) {
    MOERT_ASSIGN_OR_RETURN(key, attributePath(item, *attribute, evaluator));
  }
  if (isCaseSensitive || !key.isText())
    return key;
  return evaluator.allowance.text(toLower(key.text()));
}

Result<std::vector<Value>> sortKeys(const Sequence &items, const Value *attribute,
                                    bool isCaseSensitive, Evaluator &evaluator) {
  std::vector<Value> keys;
  for (const Value &item : items.items) {
    MOERT_ASSIGN_OR_RETURN(Value key, sortKey(item, attribute, isCaseSensitive, evaluator));
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<Value> reordered(const std::vector<Value> &items, const std::vector<size_t> &order,
                        Allowance &allowance) {
  std::vector<Value> sorted;
  for (size_t place : order)
    sorted.push_back(items[place]);
  return allowance.list(std::move(sorted));
}

// min(case_sensitive=false, attribute=none): the first of the smallest or largest.
Result<Value> extreme(const BuiltinCall &call, bool wantsLargest) {
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  if (items->items.empty())
    return Value::undefined("No aggregated item, sequence was empty.");
  MOERT_ASSIGN_OR_RETURN(
      const std::vector<Value> keys,
      sortKeys(*items, call.has(1) ? &call.argument(1) : nullptr, call.flag(0), call.evaluator));
  size_t best = 0;
  for (size_t i = 1; i < keys.size(); ++i) {
    MOERT_ASSIGN_OR_RETURN(const bool isBetter,
                           wantsLargest ? isLess(keys[best], keys[i], call.allowance())
                                        : isLess(keys[i], keys[best], call.allowance()));
    if (isBetter)
      best = i;
  }
  return items->items[best];
}

Result<Value> generator(std::vector<Value> items, Allowance &allowance) {
  return allowance.sequence(SequenceKind::kGenerator, std::move(items));
}

} // namespace

Result<Value> filterFirst(const BuiltinCall &call) {
  if (call.self.isSequence() && !call.self.sequence()->hasLength()) { // Reads one item only.
    const Sequence &sequence = *call.self.sequence();
    if (sequence.position < sequence.items.size())
      return sequence.items[sequence.position++];
    return Value::undefined("No first item, sequence was empty.");
  }
  if (call.self.isText() && !call.self.text().empty())
    return call.evaluator.element(call.self, Value(int64_t(0)));
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  return items->items.empty() ? Value::undefined("No first item, sequence was empty.")
                              : items->items.front();
}

Result<Value> filterLast(const BuiltinCall &call) {
  if (call.self.isSequence() && !call.self.sequence()->hasLength())
    return invalidInput("'generator' object is not reversible");
  if (call.self.isText() && !call.self.text().empty())
    return call.evaluator.element(call.self, Value(int64_t(-1)));
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  return items->items.empty() ? Value::undefined("No last item, sequence was empty.")
                              : items->items.back();
}

// join(d='', attribute=none)
Result<Value> filterJoin(const BuiltinCall &call) {
  Value separator = Value::ofText("");
  if (call.has(0)) {
    MOERT_ASSIGN_OR_RETURN(separator, toText(call.argument(0), call.allowance()));
  }
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  TextBuilder out(call.allowance());
  for (size_t i = 0; i < items->items.size(); ++i) {
    if (i > 0)
      MOERT_RETURN_IF_ERROR(out.append(separator.text()));
    Value item = items->items[i];
    if (call.isSet(1)) {
      MOERT_ASSIGN_OR_RETURN(item, attributePath(item, call.argument(1), call.evaluator));
    }
    MOERT_RETURN_IF_ERROR(appendText(item, out));
  }
  return std::move(out).finish();
}

Result<Value> filterList(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  return call.allowance().list(items->items);
}

Result<Value> filterReverse(const BuiltinCall &call) {
  if (call.self.isText()) {
    MOERT_ASSIGN_OR_RETURN(const SequencePtr characters, iterate(call.self, call.allowance()));
    std::string reversed;
    for (auto item = characters->items.rbegin(); item != characters->items.rend(); ++item)
      reversed += item->text();
    return call.allowance().text(std::move(reversed));
  }
  const bool isGenerator = call.self.isSequence() && !call.self.sequence()->hasLength();
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  std::vector<Value> reversed(items->items.rbegin(), items->items.rend());
  return isGenerator ? call.allowance().list(std::move(reversed))
                     : generator(std::move(reversed), call.allowance());
}

// sort(reverse=false, case_sensitive=false, attribute=none): the attribute may be several, "a,b".
Result<Value> filterSort(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  std::vector<Value> keys;
  const bool hasSeveral = call.isSet(2) && call.argument(2).isText() &&
                          call.argument(2).text().find(',') != std::string::npos;
  if (hasSeveral)
    return invalidInput("sort by several attributes is not supported");
  MOERT_ASSIGN_OR_RETURN(keys, sortKeys(*items, call.has(2) ? &call.argument(2) : nullptr,
                                        call.flag(1), call.evaluator));
  MOERT_ASSIGN_OR_RETURN(const std::vector<size_t> order,
                         sortedOrder(keys, call.flag(0), call.allowance()));
  return reordered(items->items, order, call.allowance());
}

// dictsort(case_sensitive=false, by='key', reverse=false)
Result<Value> filterDictsort(const BuiltinCall &call) {
  MOERT_RETURN_IF_ERROR(requireDefined(call.self));
  MOERT_ASSIGN_OR_RETURN(const std::string by, call.text(1, "key"));
  if (by != "key" && by != "value")
    return invalidInput("dictsort: found by='", by, "', expected 'key' or 'value'");
  if (!call.self.isDict())
    return invalidInput("dictsort of a value of type ", call.self.typeName(), ", expected dict");
  std::vector<Value> keys, pairs;
  for (const auto &[name, value] : call.self.dict()->entries) {
    MOERT_ASSIGN_OR_RETURN(
        Value key, sortKey(by == "key" ? name : value, nullptr, call.flag(0), call.evaluator));
    MOERT_ASSIGN_OR_RETURN(Value pair,
                           call.allowance().sequence(SequenceKind::kTuple, {name, value}));
    keys.push_back(std::move(key));
    pairs.push_back(std::move(pair));
  }
  MOERT_ASSIGN_OR_RETURN(const std::vector<size_t> order,
                         sortedOrder(keys, call.flag(2), call.allowance()));
  return reordered(pairs, order, call.allowance());
}

// unique(case_sensitive=false, attribute=none)
Result<Value> filterUnique(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  MOERT_ASSIGN_OR_RETURN(
      const std::vector<Value> keys,
      sortKeys(*items, call.has(1) ? &call.argument(1) : nullptr, call.flag(0), call.evaluator));
  std::unordered_set<std::string> seen;
  std::vector<Value> unique;
  for (size_t i = 0; i < keys.size(); ++i) {
    MOERT_ASSIGN_OR_RETURN(std::string key, hashKey(keys[i], call.allowance()));
    if (seen.insert(std::move(key)).second)
      unique.push_back(items->items[i]);
  }
  return generator(std::move(unique), call.allowance());
}

Result<Value> filterMin(const BuiltinCall &call) {
  return extreme(call, false);
}
Result<Value> filterMax(const BuiltinCall &call) {
  return extreme(call, true);
}

// sum(attribute=none, start=0)
Result<Value> filterSum(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  Value sum = call.has(1) ? call.argument(1) : Value(int64_t(0));
  if (sum.isText())
    return invalidInput("sum() can't sum strings [use ''.join(seq) instead]");
  for (Value item : items->items) {
    if (call.isSet(0)) {
      MOERT_ASSIGN_OR_RETURN(item, attributePath(item, call.argument(0), call.evaluator));
    }
    MOERT_ASSIGN_OR_RETURN(sum, applyBinary(BinaryOperator::kAdd, sum, item, call.allowance()));
  }
  return sum;
}

Result<Value> filterItems(const BuiltinCall &call) {
  std::vector<Value> pairs;
  if (!call.self.isUndefined() && !call.self.isDict())
    return invalidInput("Can only get item pairs from a mapping.");
  if (call.self.isDict()) {
    for (const auto &[name, value] : call.self.dict()->entries) {
      MOERT_ASSIGN_OR_RETURN(Value pair,
                             call.allowance().sequence(SequenceKind::kTuple, {name, value}));
      pairs.push_back(std::move(pair));
    }
  }
  return generator(std::move(pairs), call.allowance());
}

// batch(linecount, fill_with=none)
Result<Value> filterBatch(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  MOERT_ASSIGN_OR_RETURN(const int64_t size, call.integer(0, 1));
  if (size < 1)
    return invalidInput("batch: found a size of ", size, ", expected at least 1");
  std::vector<Value> batches;
  for (size_t begin = 0; begin < items->items.size();) {
    const size_t count =
        static_cast<size_t>(std::min<uint64_t>(uint64_t(size), items->items.size() - begin));
    const auto first = items->items.begin() + static_cast<ptrdiff_t>(begin);
    std::vector<Value> batch(first, first + static_cast<ptrdiff_t>(count));
    if (call.isSet(1) && count < static_cast<uint64_t>(size)) {
      MOERT_RETURN_IF_ERROR(call.allowance().spend(static_cast<uint64_t>(size)));
      batch.resize(static_cast<size_t>(size), call.argument(1));
    }
    MOERT_ASSIGN_OR_RETURN(Value row, call.allowance().list(std::move(batch)));
    batches.push_back(std::move(row));
    begin += count;
  }
  return generator(std::move(batches), call.allowance());
}

// slice(slices, fill_with=none): that many lists, the first ones one longer.
Result<Value> filterSlice(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(call.self, call.allowance()));
  MOERT_ASSIGN_OR_RETURN(const int64_t slices, call.integer(0, 1));
  if (slices < 1)
    return invalidInput("slice: found ", slices, " slices, expected at least 1");
  const size_t count = static_cast<size_t>(slices);
  MOERT_RETURN_IF_ERROR(call.allowance().spend(count));
  const size_t each = items->items.size() / count, longer = items->items.size() % count;
  std::vector<Value> lists;
  auto next = items->items.begin();
  for (size_t i = 0; i < count; ++i) {
    const auto end = next + static_cast<ptrdiff_t>(each + (i < longer));
    std::vector<Value> list(next, end);
    next = end;
    if (call.isSet(1) && i >= longer)
      list.push_back(call.argument(1));
    MOERT_ASSIGN_OR_RETURN(Value row, call.allowance().list(std::move(list)));
    lists.push_back(std::move(row));
  }
  return generator(std::move(lists), call.allowance());
}

} // namespace moert::chat
