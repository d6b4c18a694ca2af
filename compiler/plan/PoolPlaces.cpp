#include "compiler/plan/PoolPlaces.h"

#include <cassert>
#include <span>

namespace moec {

PoolPlaces::PoolPlaces(const ReadTable &reads, uint64_t pages, size_t experts)
    : reusedFactors(reads), pool(reusedFactors.isAlike() ? 0 : pages),
      pagesOf(reusedFactors.isAlike() ? 0 : experts), readAt(reusedFactors.isAlike() ? 0 : pages) {}

double PoolPlaces::take(uint32_t id, uint64_t count, uint64_t bytes) {
  if (reusedFactors.isAlike() || count == pagesOf[id].size())
    return 1;
  const size_t before = pagesOf[id].size();
  assert(before < count);
  pagesOf[id].resize(count);
  const std::span<uint32_t> pages = std::span(pagesOf[id]).subspan(before);
  const bool isTaken = pool.allocate(pages);
  assert(isTaken && "the directory lets nobody have more than the pool");
  (void)isTaken;
  double time = 0, pagesTime = 0; // In units of a page's at the table's rate.
  for (size_t i = 0; i < pages.size(); ++i) {
    // Pages that lie side by side mostly held one record before.
    if (i == 0 || readAt[pages[i]] != readAt[pages[i - 1]])
      pagesTime = 1 / reusedFactors.of(bytesRead - readAt[pages[i]]);
    time += pagesTime;
  }
  for (uint32_t page : pages)
    readAt[page] = bytesRead;
  bytesRead += bytes;
  return static_cast<double>(pages.size()) / time;
}

void PoolPlaces::giveBack(uint32_t id, uint64_t left) {
  if (reusedFactors.isAlike())
    return;
  pool.release(std::span(pagesOf[id]).subspan(left));
  pagesOf[id].resize(left);
}

} // namespace moec
