#include "runtime/memory/Ledger.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Size.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace moert {

Reservation::Reservation(Reservation &&other) noexcept
    : ledger(other.ledger), owner(other.owner), size(std::exchange(other.size, 0)) {}

Reservation &Reservation::operator=(Reservation &&other) noexcept {
  std::swap(ledger, other.ledger);
  std::swap(owner, other.owner);
  std::swap(size, other.size);
  return *this;
}

Reservation::~Reservation() {
  if (size > 0 && !ledger->onlyCounts())
    ledger->giveBack(size);
}

Status Reservation::resize(uint64_t bytes) {
  if (bytes == size)
    return {};
  MOERT_RETURN_IF_ERROR(ledger->exchange(owner, size, bytes));
  size = bytes;
  return {};
}

Ledger::Ledger(std::vector<MemoryItem> &list) : capacityBytes(UINT64_MAX), items(&list) {
  for (const MemoryItem &item : list)
    usedBytes += item.bytes;
}

Result<Reservation> Ledger::reserve(const char *owner, uint64_t bytes) {
  Reservation made(*this, owner);
  MOERT_RETURN_IF_ERROR(made.resize(bytes));
  return made;
}

Status Ledger::exchange(const char *owner, uint64_t before, uint64_t bytes) {
  if (bytes <= before) {
    giveBack(before - bytes);
    return {};
  }
  const uint64_t more = bytes - before;
  uint64_t taken = usedBytes.load();
  do {
    const uint64_t most = capacityBytes.load();
    const uint64_t left = most - std::min(most, taken);
    if (more > left)
      return failed(owner, ": ", formatExactBytes(more), " of memory asked for, ",
                    formatExactBytes(left), " of ", formatExactBytes(most), " left");
  } while (!usedBytes.compare_exchange_weak(taken, taken + more));
  if (!items)
    return {};
  auto item = std::find_if(items->begin(), items->end(),
                           [owner](const MemoryItem &one) { return one.name == owner; });
  assert(item != items->end() && "the list has all owners, in the order of the account");
  item->bytes += more;
  return {};
}

static constexpr uint64_t kPageBytes = 4096;

Result<ReservedRegion> ReservedRegion::create(Ledger &ledger, const char *owner, uint64_t bytes,
                                              Populate populate) {
  ReservedRegion made;
  made.size = roundUp(bytes, kPageBytes);
  MOERT_ASSIGN_OR_RETURN(made.reservation, ledger.reserve(owner, made.size));
  if (ledger.onlyCounts())
    return made;
  Result<HostRegion> region = HostRegion::create(made.size, populate);
  if (!region.isOk())
    return region.status().withContext(owner);
  made.region = std::move(region).value();
  return made;
}

Status ReservedRegion::resize(uint64_t bytes) {
  const uint64_t before = reservation.bytes(), after = roundUp(bytes, kPageBytes);
  if (after > before)
    MOERT_RETURN_IF_ERROR(reservation.resize(after));
  Status resized = region.resize(after);
  if (resized.isOk())
    size = after;
  (void)reservation.resize(resized.isOk() ? after : before); // It shrinks or stays.
  return resized;
}

void ReservedRegion::release(uint64_t from) {
  const uint64_t kept = roundUp(from, kPageBytes);
  if (kept >= reservation.bytes())
    return;
  region.release(kept);
  (void)reservation.resize(kept); // It shrinks.
}

} // namespace moert
