// The experts in a device's memory: a tier above the expert cache. Its machine (CacheMachine)
// decides which experts stay; a read that the machine begins is a demand of the cache below, from
// whose pages the expert is then copied.
//
// A layer pass: beginPass; then takeReads and arrive, nextReady and release, until all were
// released; endPass. What is released was submitted to the compute stream before.
#pragma once

#include "runtime/engine/device/Device.h"
#include "runtime/experts/ExpertCache.h"
#include "runtime/policy/CacheAllotment.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// Events of a device (DeviceFunctions) by their use.
namespace deviceEvents {
constexpr uint32_t kFinished = 0, kCopied = 1, kReleased = 2;
} // namespace deviceEvents

/// Borrows the device and the records. Used by one thread. An expert's pages, and the list of them,
/// are reused by copies that wait for the work that was submitted before their release.
class DeviceExperts {
public:
  /// cache: without a pool. `pool` has whole pages, `lists` listBytes().
  DeviceExperts(Device &on, const CacheConfig &cache, DeviceRegion pool, uint64_t poolPages,
                DeviceRegion lists);
  /// What the lists of all pages take, on the device and on the host.
  static uint64_t listBytes(const CacheShape &shape);

  /// Opens a layer pass; one that is open has failed and is abandoned. `layer` and the indices of
  /// experts are those of ExpertCache.
  Status beginPass(uint32_t layer, const PassDemand &demand);
  /// Indices of missing experts that have pages now, each of which has to arrive. Valid until the
  /// next call.
  std::span<const uint32_t> takeReads();
  /// Copies an expert's record; its bytes are needed until `deviceEvents::kCopied` is done.
  Status arrive(uint32_t index, const PagedBytes &record);
  /// An expert that is on the device, or will be when the compute stream comes to it.
  std::optional<uint32_t> nextReady();
  /// The expert's record, in the device's memory.
  PagedBytes bytes(uint32_t index) const;
  Status release(uint32_t index);
  bool isAllHandedOut() const { return machine.isAllHandedOut(); }
  /// Returns what the layer pass counted: hits of this tier.
  Result<CacheCounts> endPass();

private:
  struct Expert {
    PageRange pages; // Places in its list.
    bool isArriving = false;
  };

  Status act();
  Status givePagesBack(const CacheAction &action);
  void takePages(const CacheAction &action);
  std::span<std::byte *> listOf(uint32_t id) {
    return std::span(hostLists).subspan(uint64_t(id) * listPages, listPages);
  }

  Device &device;
  const uint32_t pageShift;
  const uint64_t listPages; // Those of the longest record.
  const DeviceRegion memory, deviceLists;
  PagePool pool;
  CacheMachine machine;
  std::vector<Expert> experts;        // By the machine's ids.
  std::vector<std::byte *> hostLists; // [expert][page of its record]
  std::vector<uint32_t> reads, taken; // Indices: begun since takeReads(), and what that returned.
  std::vector<uint32_t> numbers;      // For pages that are taken or given back.
  bool isReused = false;              // Pages were given back since the last copy.
};

} // namespace moert
