// A forecast before anything is compiled: whether the model fits, its size and its speed. Needs
// only config.json and a device profile; weights may be absent.
#pragma once

#include "compiler/import/ParameterCount.h"
#include "compiler/plan/DeviceProfile.h"
#include "compiler/session/Session.h"
#include "runtime/base/Status.h"
#include "runtime/policy/CacheAllotment.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

struct OutlookRequest {
  std::string directory; // Contains config.json.
  std::vector<std::string> budgets;
  const DeviceProfile *device = nullptr; // nullptr: no forecast of speed.
  uint32_t context = 0;                  // In tokens; 0: as in moec compile.
};

/// Decoding single tokens with the default eviction and without prefetching.
struct SpeedOutlook {
  double hitRate = 0;                     // 0 to 1.
  Origin hitOrigin = Origin::kAssumed;    // Assumed: kAssumedHits.
  double bytesPerToken = 0;               // Read from disk.
  double tokenNs = 0;                     // Resident experts are computed while others are read.
  double computeNs = 0;                   // Without reads.
  Origin deviceOrigin = Origin::kAssumed; // The worst origin among the rates used.
};

struct BudgetOutlook {
  std::string budget;              // As given by the user.
  bool fitsShorterContext = false; // It is too small for this context, but not for the shortest.
  bool isEnough = false;           // If false, the fields below are not set.
  uint64_t budgetBytes = 0;
  double cachedFraction = 0; // Fraction of the expert bytes, 0 to 1.
  std::optional<SpeedOutlook> speed;
};

/// Sizes with all experts at one width and resident weights at 8 bits.
struct WidthOutlook {
  std::string_view option; // As --bits names the width; static memory.
  double bits = 0;         // Per weight; "source" counts the scales too: 4.25 for MXFP4.
  uint64_t fileBytes = 0;  // Without the tokenizer and the results of calibration.
  uint64_t residentBytes = 0;
  uint64_t expertBytes = 0; // Stored size of all experts.
  uint64_t recordBytes = 0; // The largest record.
  uint64_t smallestBudget = 0;
  std::vector<BudgetOutlook> budgets;
};

struct Outlook {
  std::string modelType;
  uint32_t layers = 0, moeLayers = 0, experts = 0, topK = 0;
  ParameterCount parameters;
  uint32_t contextTokens = 0;
  uint64_t kvBytes = 0;    // For the context.
  uint32_t kvBits = 0;     // The most of any attention; 0 without one.
  uint64_t stateBytes = 0; // For any context.
  std::vector<WidthOutlook> widths;
};

/// Hit rates of the bundled model, decoding given text, by the fraction of experts that the cache
/// holds; other models are assumed to have the same.
struct AssumedHit {
  double cachedFraction, hitRate;
};
inline constexpr AssumedHit kAssumedHits[] = {
    {0, 0}, {0.25, 0.515}, {0.5, 0.773}, {0.75, 0.928}, {1, 1}};
double assumedHitRate(double cachedFraction);

/// Where each token uses all experts, what the layers keep between their passes is what they hit:
/// derived. Otherwise assumed.
struct ExpectedHits {
  double rate = 0; // 0 to 1.
  Origin origin = Origin::kAssumed;
};
ExpectedHits expectedHits(const moert::CacheShape &shape, const moert::CacheAllotment &allotment);

/// Refuses configs of models that moec cannot compile.
moert::Result<Outlook> outlookOf(const OutlookRequest &request, const Session &session);

/// In so many columns.
std::string outlookText(const Outlook &outlook, const OutlookRequest &request, size_t columns = 80);
std::string outlookJson(const Outlook &outlook, const OutlookRequest &request);

} // namespace moec
