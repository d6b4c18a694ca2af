// What to expect of a model before anything is compiled: will it fit, how large, how fast. Needs
// config.json and a device profile alone; no weight is there or read.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "compiler/session/Session.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moec {

struct OutlookRequest {
  std::string directory; // With config.json.
  std::vector<std::string> budgets;
  const DeviceProfile *device = nullptr; // Without, nothing is said of speed.
  uint32_t context = 0;                  // Tokens; 0: as moec compile.
};

/// Decoding one token after another with a cyclic cache and no guesses.
struct SpeedOutlook {
  double hitRate = 0;                     // 0 to 1; assumed (kAssumedHits).
  double bytesPerToken = 0;               // Read.
  double tokenNs = 0;                     // Experts in memory are computed while others are read.
  double computeNs = 0;                   // Alone.
  Origin deviceOrigin = Origin::kAssumed; // The worst of the rates that the times are made of.
};

struct BudgetOutlook {
  std::string budget;    // As it was given.
  bool isEnough = false; // Otherwise nothing below is set.
  uint64_t budgetBytes = 0;
  double cachedShare = 0; // Of the expert bytes, 0 to 1.
  std::optional<SpeedOutlook> speed;
};

/// With all experts at one width and resident weights at 8 bits.
struct WidthOutlook {
  uint32_t bits = 0;
  uint64_t fileBytes = 0; // Without a tokenizer and what calibration learns.
  uint64_t residentBytes = 0;
  uint64_t expertBytes = 0; // Stored, of all experts.
  uint64_t recordBytes = 0; // Of the largest.
  uint64_t smallestBudget = 0;
  std::vector<BudgetOutlook> budgets;
};

struct Outlook {
  std::string modelType;
  uint32_t layers = 0, moeLayers = 0, experts = 0, topK = 0;
  uint32_t contextTokens = 0;
  uint64_t kvBytes = 0; // Of the context.
  std::vector<WidthOutlook> widths;
};

/// Hit rates of the bundled model, decoding given text, by the share of experts that the cache
/// holds: other models are assumed to do as well.
struct AssumedHit {
  double cachedShare, hitRate;
};
inline constexpr AssumedHit kAssumedHits[] = {
    {0, 0}, {0.25, 0.515}, {0.5, 0.773}, {0.75, 0.928}, {1, 1}};
double assumedHitRate(double cachedShare);

/// Refuses configs of models that cannot be compiled.
moert::Result<Outlook> outlookOf(const OutlookRequest &request, const Session &session);

std::string outlookText(const Outlook &outlook, const OutlookRequest &request);
std::string outlookJson(const Outlook &outlook, const OutlookRequest &request);

} // namespace moec
