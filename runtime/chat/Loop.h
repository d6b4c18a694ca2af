// The variable `loop` in the body of a for statement.
#pragma once

#include "runtime/chat/Ast.h"
#include "runtime/chat/Evaluator.h"
#include "runtime/chat/Object.h"

namespace moert::chat {

class Loop final : public Object {
public:
  /// `recursiveFor` is null unless the loop is recursive; `loopScope` is the scope around it.
  Loop(SequencePtr loopItems, uint32_t loopLevel, const For *recursiveFor, Scope &loopScope)
      : items(std::move(loopItems)), level(loopLevel), recursive(recursiveFor), scope(loopScope) {}

  std::string typeName() const override { return "LoopContext"; }
  Result<std::optional<Value>> attribute(std::string_view name) const override;
  bool isCallable() const override { return true; }
  /// The body's text for other elements.
  Result<Value> call(const Arguments &arguments, Evaluator &evaluator) override;
  Status describe(TextBuilder &out) const override;
  void clear() override { lastChanged.reset(); }
  uint32_t depth() const override { return items->depth + 1; }

  /// loop.cycle(a, b, ...): one value in each iteration.
  Result<Value> cycle(const Arguments &arguments) const;
  /// loop.changed(value): whether it differs from that of the last call.
  Result<Value> changed(const Arguments &arguments, Evaluator &evaluator);

  size_t index = 0; // The current element.

private:
  Value itemOr(size_t place, const char *reason) const;

  const SequencePtr items;
  const uint32_t level; // 0 for a loop that no recursion has started.
  const For *recursive;
  Scope &scope; // Captured if the loop is recursive; otherwise unused.
  std::optional<Value> lastChanged;
};

} // namespace moert::chat
