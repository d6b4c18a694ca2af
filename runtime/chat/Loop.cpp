#include "runtime/chat/Loop.h"

#include "runtime/chat/Builtins.h"
#include "runtime/chat/Printing.h"

namespace moert::chat {

namespace {

/// A method of `loop` as a value. Does not keep the loop alive: the loop's scope does that, and
/// a method in a namespace may be called later, so it holds the loop weakly.
class LoopMethod final : public Object {
public:
  using Function = Result<Value> (*)(Loop &loop, const Arguments &arguments, Evaluator &evaluator);
  LoopMethod(std::weak_ptr<Object> ofLoop, Function methodFunction)
      : loop(std::move(ofLoop)), function(methodFunction) {}

  std::string typeName() const override { return "method"; }
  bool isCallable() const override { return true; }
  Result<Value> call(const Arguments &arguments, Evaluator &evaluator) override {
    const ObjectPtr object = loop.lock();
    if (!object)
      return invalidInput("a method of 'loop' is called after its loop");
    evaluator.keep(object); // Its last value may hold the loop itself.
    return function(static_cast<Loop &>(*object), arguments, evaluator);
  }

private:
  const std::weak_ptr<Object> loop;
  const Function function;
};

Value number(size_t value) {
  return Value(static_cast<int64_t>(value));
}

} // namespace

Value Loop::itemOr(size_t place, const char *reason) const {
  return place < items->items.size() ? items->items[place] : Value::undefined(reason);
}

Result<std::optional<Value>> Loop::attribute(std::string_view name) const {
  const size_t length = items->items.size();
  using Found = std::optional<Value>;
  if (name == "index")
    return Found(number(index + 1));
  if (name == "index0")
    return Found(number(index));
  if (name == "revindex")
    return Found(number(length - index));
  if (name == "revindex0")
    return Found(number(length - index - 1));
  if (name == "length")
    return Found(number(length));
  if (name == "first")
    return Found(Value(index == 0));
  if (name == "last")
    return Found(Value(index + 1 == length));
  if (name == "previtem")
    return Found(index == 0 ? Value::undefined("there is no previous item")
                            : items->items[index - 1]);
  if (name == "nextitem")
    return Found(itemOr(index + 1, "there is no next item"));
  if (name == "depth")
    return Found(number(level + 1));
  if (name == "depth0")
    return Found(number(level));
  auto method = [&](LoopMethod::Function function) {
    auto self = std::const_pointer_cast<Object>(weak_from_this().lock());
    return Found(Value(ObjectPtr(std::make_shared<LoopMethod>(self, function))));
  };
  if (name == "cycle")
    return method(
        [](Loop &loop, const Arguments &arguments, Evaluator &) { return loop.cycle(arguments); });
  if (name == "changed")
    return method([](Loop &loop, const Arguments &arguments, Evaluator &evaluator) {
      return loop.changed(arguments, evaluator);
    });
  return Found();
}

Result<Value> Loop::cycle(const Arguments &arguments) const {
  if (arguments.positional.empty())
    return invalidInput("no items for cycling given");
  return arguments.positional[index % arguments.positional.size()];
}

Result<Value> Loop::changed(const Arguments &arguments, Evaluator &evaluator) {
  MOERT_ASSIGN_OR_RETURN(Value values,
                         evaluator.allowance.sequence(SequenceKind::kTuple, arguments.positional));
  bool isSame = false;
  if (lastChanged) {
    MOERT_ASSIGN_OR_RETURN(isSame, isEqual(*lastChanged, values, evaluator.allowance));
  }
  if (!isSame)
    lastChanged = std::move(values);
  return Value(!isSame);
}

Result<Value> Loop::call(const Arguments &arguments, Evaluator &evaluator) {
  if (!recursive)
    return invalidInput("the loop must have the 'recursive' marker to be called recursively");
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    return invalidInput("loop() takes one argument: what to loop over");
  return evaluator.repeatLoop(*recursive, scope, arguments.positional[0], level + 1);
}

Status Loop::describe(TextBuilder &out) const {
  return out.append(strCat("<LoopContext ", index + 1, "/", items->items.size(), ">"));
}

} // namespace moert::chat
