// The expert cache without its bytes: replays a routing trace through the runtime's own directory
// and policies, and counts what the runtime would count: play by play the same, where no read fails
// and the guesses of a play have been read when the next one begins. Reads that race with the
// computation change what is read of guesses, never hits, misses and evictions.
#pragma once

#include "compiler/plan/RoutingTrace.h"
#include "runtime/base/Status.h"
#include "runtime/policy/CacheDirectory.h"
#include "runtime/policy/GuessList.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace moec {

/// A layer's experts and its part of the cache.
struct ReplayLayer {
  std::vector<uint64_t> recordBytes; // Per expert.
  uint64_t quotaPages = 0;
  bool comesRoundAgain = true;
  std::vector<uint32_t> pinned;
  /// What the cache holds of it at the start, as far as it fits, in this order; how many of
  /// startTokens tokens wanted each (empty: one).
  std::vector<uint32_t> start, startUses;
  uint32_t startTokens = 1;
};

struct ReplayCache {
  uint64_t pageBytes = 0;
  uint64_t transitPages = 0;
  moert::CacheRules rules;
  std::vector<ReplayLayer> layers;
};

/// As the runtime's CacheStats.
struct ReplayCounts {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;
  uint64_t bytesRead = 0; // Guesses included.
  uint64_t guessesRead = 0, guessBytes = 0;
  uint64_t adopted = 0;         // Misses that had been guessed.
  uint64_t refuted = 0;         // Guesses that were let go unused.
  uint64_t guessesRetained = 0; // In memory already, and not read.
  ReplayCounts &operator+=(const ReplayCounts &other);
  friend bool operator==(const ReplayCounts &, const ReplayCounts &) = default;
};

moert::DirectorySize directorySizeOf(const ReplayCache &cache);

/// What the rules leave in a directory as a new prompt begins; the number of evictions.
uint64_t beginPromptIn(moert::CacheDirectory &directory);

/// A cache that is played by hand. One thread.
class CacheReplay {
public:
  /// Fills and pins. Refuses a cache that the runtime would refuse, with the numbers.
  static moert::Result<CacheReplay> create(const ReplayCache &cache);

  /// The layer has these experts, of which the demand wants distinct ones.
  /// The guesses of later layers were made before its experts were played.
  ReplayCounts play(uint32_t layer, const moert::PlayDemand &demand,
                    std::span<const moert::LayerGuess> guesses = {});
  /// The evictions that a new prompt begins with. Guesses of the old one are let go, which the next
  /// play counts.
  uint64_t beginPrompt();

  uint64_t startBytes() const { return bytesAtStart; }
  const moert::CacheDirectory &state() const { return directory; }
  /// For another replay to go on with.
  moert::CacheDirectory takeState() && { return std::move(directory); }

private:
  CacheReplay(const ReplayCache &cache, const moert::DirectorySize &size);
  moert::Status pinAndFill(const ReplayCache &cache);
  uint64_t dropRefuted();
  void readGuesses(ReplayCounts &counts);

  moert::CacheDirectory directory;
  moert::GuessList guessList;
  std::vector<uint64_t> bytes; // By the directory's ids.
  uint64_t bytesAtStart = 0;
  uint64_t refutedBetween = 0; // Plays.
};

struct ReplayResult {
  std::vector<ReplayCounts> plays; // Of the trace.
  ReplayCounts total;
  uint64_t startBytes = 0; // Read before the first play.
};

/// Plays the whole trace. Refuses a cache whose layers are not the trace's.
moert::Result<ReplayResult> replayTrace(const RoutingTrace &trace, const ReplayCache &cache);

} // namespace moec
