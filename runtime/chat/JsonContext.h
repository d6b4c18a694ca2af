// The variables of a rendering, from JSON.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/chat/Value.h"

#include <nlohmann/json_fwd.hpp>

namespace moert::chat {

/// The members of an object. Refuses broken UTF-8, integers of more than 64 bits, and lists in
/// lists deeper than kMaxValueDepth.
Result<Dict> readContext(const nlohmann::ordered_json &json);

} // namespace moert::chat
