// Other plans for an artifact that is there: nothing is quantized again, the weights are copied as
// they are, and only the description behind them is new.
#pragma once

#include "compiler/driver/Session.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

struct ReplanRequest {
  std::string artifactPath;
  std::string outputPath;
  std::vector<std::string> budgets; // "512MiB", "6GiB", "25%"; at least one.
  uint32_t context = 0;             // Tokens; 0: what the artifact was planned for.
};

/// Writes outputPath, whole or not at all; the artifact stays as it is. Refuses budgets that cannot
/// work, with the smallest that would.
moert::Status replanArtifact(const ReplanRequest &request, const Session &session);

} // namespace moec
