// Who owns how much of a memory space. An owner of memory reserves it here before it takes it, so
// that a limit is never exceeded and each refusal names the owner. An account of memory is made by
// the same constructors: against a ledger that only counts they take no memory.
#pragma once

#include "runtime/base/HostMemory.h"
#include "runtime/base/Status.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// The memory of one owner in an account.
struct MemoryItem {
  std::string name;
  uint64_t bytes = 0;
  bool isHeldBefore = false; // Resident before loading begins, or transient.
};

class Ledger;

/// One owner's claim, which its destructor gives back. Used by one thread at a time; the ledger
/// must outlive it.
class Reservation {
public:
  Reservation() = default; // Without a ledger only resize(0) is possible.
  /// Of 0 bytes. owner: a literal, or a string that outlives the reservation.
  Reservation(Ledger &of, const char *name) : ledger(&of), owner(name) {}
  Reservation(Reservation &&other) noexcept;
  Reservation &operator=(Reservation &&other) noexcept;
  ~Reservation();

  uint64_t bytes() const { return size; }
  /// An error names the owner, what it asked for and what is left, and changes nothing.
  Status resize(uint64_t bytes);

private:
  Ledger *ledger = nullptr;
  const char *owner = "";
  uint64_t size = 0;
};

/// Invariant: used() is the sum of all reservations and, unless the ledger only counts, at most
/// capacity(). Any thread may reserve.
class Ledger {
public:
  explicit Ledger(uint64_t capacity) : capacityBytes(capacity) {}
  /// Only counts: grants everything and adds it to the item of its owner. The list begins with what
  /// is used by others, which counts too; one thread uses it.
  explicit Ledger(std::vector<MemoryItem> &list);
  Ledger(const Ledger &) = delete;
  Ledger &operator=(const Ledger &) = delete;

  Result<Reservation> reserve(const char *owner, uint64_t bytes);
  /// A claim of `before` bytes becomes one of `bytes`: for Reservation, which keeps the sum.
  Status exchange(const char *owner, uint64_t before, uint64_t bytes);
  void giveBack(uint64_t bytes) { usedBytes -= bytes; }

  bool onlyCounts() const { return items != nullptr; }
  uint64_t capacity() const { return capacityBytes.load(std::memory_order_relaxed); }
  uint64_t used() const { return usedBytes.load(std::memory_order_relaxed); }
  /// Grants from now on up to another capacity. Reservations beyond a smaller one stay.
  void setCapacity(uint64_t capacity) { capacityBytes = capacity; }

private:
  std::atomic<uint64_t> capacityBytes, usedBytes = 0;
  std::vector<MemoryItem> *items = nullptr;
};

/// A region of the host's memory that a ledger counts. Movable; the memory keeps its address. From
/// a ledger that only counts it has its size and no memory.
class ReservedRegion {
public:
  ReservedRegion() = default;
  /// Rounded up to whole pages.
  static Result<ReservedRegion> create(Ledger &ledger, const char *owner, uint64_t bytes,
                                       Populate populate = Populate::kYes);

  /// As HostRegion::resize(). A region that grows reserves first; an error changes neither size nor
  /// reservation. Shrinking does not fail.
  Status resize(uint64_t bytes);
  /// Gives the pages from `from` on back to system and ledger, but keeps their addresses, so that
  /// nothing is mapped to take them back.
  void release(uint64_t from);
  /// Reserves what was released: fails only where another owner has reserved it meanwhile.
  Status takeBack() { return reservation.resize(size); }
  /// The ledger ends before the region, which no longer counts.
  void leaveLedger() { reservation = {}; }

  std::byte *data() const { return region.data(); }
  uint64_t bytes() const { return size; }
  std::span<std::byte> span() const { return {region.data(), size}; }

private:
  Reservation reservation;
  HostRegion region;
  uint64_t size = 0; // With what is released.
};

} // namespace moert
