// The steps and memory that are left to a rendering. All values of a template are made here, so
// that none takes more time or memory than its limits.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/chat/ChatTemplate.h"
#include "runtime/text/chat/Value.h"

namespace moert::chat {

/// Lists in lists deeper than this are refused, so that recursion over a value is bounded.
inline constexpr uint32_t kMaxValueDepth = 100;

/// Used by one thread.
class Allowance {
public:
  explicit Allowance(const TemplateLimits &templateLimits)
      : limits(templateLimits), remainingSteps(templateLimits.steps) {}

  Status spend(uint64_t steps);
  /// Call before making a text or a list of that size.
  Status spendBytes(uint64_t bytes) { return spend(1 + bytes / kBytesPerStep); }

  /// A text whose bytes are counted now. They already exist, so they must be no more than a small
  /// multiple of a text that was counted; otherwise call spendBytes() first, or use a TextBuilder.
  Result<Value> text(std::string bytes);
  Result<Value> sequence(SequenceKind kind, std::vector<Value> items);
  Result<Value> list(std::vector<Value> items) {
    return sequence(SequenceKind::kList, std::move(items));
  }
  Result<Value> dict(Dict dict);
  Result<Value> object(ObjectPtr object);

  const TemplateLimits limits;

private:
  static constexpr uint64_t kBytesPerStep = 16;

  uint64_t remainingSteps;
};

/// Builds a text and counts it as it grows.
class TextBuilder {
public:
  explicit TextBuilder(Allowance &renderingAllowance) : allowance(renderingAllowance) {}

  Status append(std::string_view part) {
    MOERT_RETURN_IF_ERROR(allowance.spendBytes(part.size()));
    bytes.append(part);
    return {};
  }
  /// `part`, `count` times.
  Status repeat(std::string_view part, uint64_t count);
  Value finish() && { return Value::ofText(std::move(bytes)); }

  Allowance &allowance;

private:
  std::string bytes;
};

} // namespace moert::chat
