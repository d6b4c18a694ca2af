#include "runtime/text/chat/Allowance.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/text/chat/Object.h"

#include <algorithm>

namespace moert::chat {

Status Allowance::spend(uint64_t steps) {
  if (steps > remainingSteps)
    return invalidInput("the rendering takes more than ", limits.steps, " steps");
  remainingSteps -= steps;
  return {};
}

Result<Value> Allowance::text(std::string bytes) {
  MOERT_RETURN_IF_ERROR(spendBytes(bytes.size()));
  return Value::ofText(std::move(bytes));
}

static Status tooDeep() {
  return invalidInput("lists and dictionaries are nested deeper than ", kMaxValueDepth, " levels");
}

Result<Value> Allowance::sequence(SequenceKind kind, std::vector<Value> items) {
  MOERT_RETURN_IF_ERROR(spend(1 + items.size()));
  auto sequence = std::make_shared<Sequence>();
  for (const Value &item : items)
    sequence->depth = std::max(sequence->depth, item.depth() + 1);
  if (sequence->depth > kMaxValueDepth)
    return tooDeep();
  sequence->kind = kind;
  sequence->items = std::move(items);
  return Value(SequencePtr(std::move(sequence)));
}

Result<Value> Allowance::dict(Dict dict) {
  MOERT_RETURN_IF_ERROR(spend(1 + 4 * dict.entries.size())); // The index takes more memory.
  for (const auto &[name, value] : dict.entries)
    dict.depth = std::max({dict.depth, name.depth() + 1, value.depth() + 1});
  if (dict.depth > kMaxValueDepth)
    return tooDeep();
  return Value(std::make_shared<const Dict>(std::move(dict)));
}

Result<Value> Allowance::object(ObjectPtr object) {
  MOERT_RETURN_IF_ERROR(spend(4));
  if (object->depth() > kMaxValueDepth)
    return tooDeep();
  return Value(std::move(object));
}

Status TextBuilder::repeat(std::string_view part, uint64_t count) {
  const std::optional<uint64_t> size = checkedMultiply(part.size(), count);
  if (!size)
    return invalidInput("a text of ", part.size(), " bytes is repeated ", count, " times");
  MOERT_RETURN_IF_ERROR(allowance.spendBytes(*size));
  bytes.reserve(bytes.size() + *size);
  for (uint64_t i = 0; i < count && !part.empty(); ++i)
    bytes.append(part);
  return {};
}

} // namespace moert::chat
