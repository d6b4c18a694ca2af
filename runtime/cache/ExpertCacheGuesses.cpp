// The cache's reads of experts that nobody has asked for yet.
#include "runtime/cache/ExpertCache.h"

#include <cassert>

namespace moert {

void ExpertCache::guess(const LayerGuess &guessed) {
  if (guessesUnderWay > 0)
    guesses.name(guessed);
}

/// The directory has decided on the play of the layer.
void ExpertCache::beginGuesses(uint32_t layer) {
  guesses.beginPlay(directory, layer);
  for (uint32_t id : guesses.adopted())
    playStats.present += experts[id].slicesReady > 0;
  playStats.adopted = guesses.adopted().size();
  for (uint32_t id : guesses.refuted())
    if (experts[id].slicesLoading > 0)
      experts[id].isDoomed = true;
    else
      letGuessGo(id);
  // Given up too early: what is doomed is wanted after all and still on its way.
  for (uint32_t id : wanted)
    if (directory.at(id).isGuess) {
      directory.adoptGuess(id);
      experts[id].isDoomed = false;
      ++playStats.adopted;
    }
  guesses.select(directory);
  playStats.guessesRetained += guesses.retained().size();
  playStats.evictions += guesses.retained().size();
}

Status ExpertCache::advanceReads() {
  if (!broken.isOk())
    return broken;
  Status advanced = queue.readsUnderWay() > 0 ? collect(false) : Status();
  if (advanced.isOk() && isPlaying)
    advanced = startReads();
  if (!advanced.isOk())
    return isPlaying ? fail(std::move(advanced)) : std::move(advanced);
  startGuesses();
  return {};
}

/// As far as the demand leaves the disk and pages to them. What leaves anyway leaves early.
void ExpertCache::startGuesses() {
  if (isPlaying && nextRead < toRead.size())
    return;
  while (guesses.hasNext() && guessesLoading < guessesUnderWay &&
         queue.readsUnderWay() < queue.maxReads()) {
    uint32_t id = guesses.next();
    while (!directory.hasRoomForGuess(id) && isPlaying && nextLeaving < leaving.size())
      evict(leaving[nextLeaving++]);
    if (!directory.hasRoomForGuess(id))
      return;
    startGuess(id);
  }
}

/// A read that cannot even be begun is not worth an error: nobody needs it yet.
void ExpertCache::startGuess(uint32_t id) {
  guesses.begin(directory);
  if (!submitRead(id).isOk()) {
    if (!broken.isOk())
      return;
    guesses.forget(id);
    directory.dropGuess(id);
    return;
  }
  experts[id].isReadAsGuess = true;
  ++guessesLoading;
  ++statsNow().guessesRead;
  statsNow().guessBytes += recordOf(id).bytes;
}

void ExpertCache::letGuessGo(uint32_t id) {
  guesses.forget(id);
  givePagesBack(id);
  directory.dropGuess(id);
  ++statsNow().refuted;
}

/// Nothing is being read.
void ExpertCache::letAllGuessesGo() {
  guesses.refuteAll();
  for (uint32_t id : guesses.refuted())
    letGuessGo(id);
}

} // namespace moert
