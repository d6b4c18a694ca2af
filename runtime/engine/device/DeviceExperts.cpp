#include "runtime/engine/device/DeviceExperts.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/experts/CacheConfigCheck.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace moert {

static uint64_t longestRecordPages(const CacheConfig &cache) {
  uint64_t bytes = 0;
  for (const CacheLayer &layer : cache.layers)
    for (const ExpertRecord &record : layer.records)
      bytes = std::max(bytes, record.bytes);
  return divideUp(bytes, cache.pageBytes);
}

uint64_t DeviceExperts::listBytes(const CacheShape &shape) {
  uint64_t experts = 0, longest = 0;
  for (const CacheShape::Layer &layer : shape.layers) {
    experts += layer.experts;
    longest = std::max(longest, layer.recordPages);
  }
  return experts * longest * sizeof(std::byte *);
}

DeviceExperts::DeviceExperts(Device &on, const CacheConfig &cache, DeviceRegion poolMemory,
                             uint64_t poolPages, DeviceRegion lists)
    : device(on), pageShift(static_cast<uint32_t>(std::countr_zero(cache.pageBytes))),
      listPages(longestRecordPages(cache)), memory(std::move(poolMemory)),
      deviceLists(std::move(lists)), pool(poolPages), machine(directoryOf(cache), {SIZE_MAX, 0}),
      experts(machine.state().size().experts), hostLists(experts.size() * listPages) {
  reads.reserve(machine.state().size().widestLayer);
  taken.reserve(reads.capacity());
  numbers.reserve(listPages);
}

Status DeviceExperts::beginPass(uint32_t layer, const PassDemand &demand) {
  if (machine.state().isPassOpen()) {
    for (uint32_t id : machine.state().wanted())
      if (std::exchange(experts[id].isArriving, false))
        (void)machine.completed(id, false);
    machine.abandonPass();
    MOERT_RETURN_IF_ERROR(act());
  }
  reads.clear();
  if (!machine.beginPass(layer, demand))
    return failed("a layer pass of a device has an expert twice");
  return act();
}

Status DeviceExperts::act() {
  while (const std::optional<CacheAction> action = machine.next())
    if (action->isRead)
      takePages(*action);
    else
      MOERT_RETURN_IF_ERROR(givePagesBack(*action));
  return {};
}

void DeviceExperts::takePages(const CacheAction &action) {
  Expert &expert = experts[action.id];
  expert.pages = machine.state().pageRangeFor(action.id, action.endSlice);
  expert.isArriving = true;
  numbers.resize(expert.pages.count());
  [[maybe_unused]] const bool isAllocated = pool.allocate(numbers);
  assert(isAllocated);
  std::byte **page = &listOf(action.id)[expert.pages.first];
  for (uint32_t number : numbers)
    *page++ = memory.data() + (uint64_t(number) << pageShift);
  reads.push_back(machine.at(action.id).history.rank);
}

Status DeviceExperts::givePagesBack(const CacheAction &action) {
  Expert &expert = experts[action.id];
  numbers.clear();
  for (uint32_t place = expert.pages.first; place < expert.pages.end; ++place)
    numbers.push_back(
        static_cast<uint32_t>((listOf(action.id)[place] - memory.data()) >> pageShift));
  pool.release(numbers);
  expert.pages = {};
  isReused = true;
  return device.record(device::kComputeStream, deviceEvents::kReleased);
}

std::span<const uint32_t> DeviceExperts::takeReads() {
  std::swap(reads, taken);
  reads.clear();
  return taken;
}

Status DeviceExperts::arrive(uint32_t index, const PagedBytes &record) {
  const uint32_t id = machine.idOf(index);
  const std::span<std::byte *> list = listOf(id);
  const PageRange pages = experts[id].pages;
  if (std::exchange(isReused, false))
    MOERT_RETURN_IF_ERROR(device.wait(device::kCopyStream, deviceEvents::kReleased));
  const uint64_t pageBytes = uint64_t(1) << pageShift;
  auto from = [&](uint32_t place) { return record.at(place * pageBytes); };
  for (uint32_t first = pages.first, end; first < pages.end; first = end) {
    for (end = first + 1; end < pages.end && list[end] == list[end - 1] + pageBytes &&
                          from(end) == from(end - 1) + pageBytes;)
      ++end;
    MOERT_RETURN_IF_ERROR(
        device.copy(device::kCopyStream, list[first], from(first), (end - first) * pageBytes));
  }
  MOERT_RETURN_IF_ERROR(device.copy(device::kCopyStream,
                                    deviceLists.as<std::byte *>() + uint64_t(id) * listPages,
                                    list.data(), listPages * sizeof(std::byte *)));
  MOERT_RETURN_IF_ERROR(device.record(device::kCopyStream, deviceEvents::kCopied));
  MOERT_RETURN_IF_ERROR(device.wait(device::kComputeStream, deviceEvents::kCopied));
  experts[id].isArriving = false;
  (void)machine.completed(id, true);
  return {};
}

std::optional<uint32_t> DeviceExperts::nextReady() {
  return machine.ready().empty() ? std::nullopt : std::optional(machine.handOut(false));
}

PagedBytes DeviceExperts::bytes(uint32_t index) const {
  const uint64_t list = uint64_t(machine.idOf(index)) * listPages;
  return {deviceLists.as<const std::byte *const>() + list, pageShift, 0};
}

Status DeviceExperts::release(uint32_t index) {
  machine.release(index);
  return act();
}

Result<CacheCounts> DeviceExperts::endPass() {
  machine.endPass();
  MOERT_RETURN_IF_ERROR(act());
  return machine.takeCounts();
}

} // namespace moert
