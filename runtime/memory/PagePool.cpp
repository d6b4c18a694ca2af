#include "runtime/memory/PagePool.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace moert {

static constexpr uint64_t kWordBits = 64;

PagePool::PagePool(uint64_t pages)
    : count(pages), freeCount(pages), freeBits(divideUp(pages, kWordBits), ~uint64_t(0)) {
  assert(pages <= UINT32_MAX);
  if (count % kWordBits != 0)
    freeBits.back() = (uint64_t(1) << count % kWordBits) - 1;
}

uint64_t PagePool::nextFree(uint64_t from) const {
  if (from >= count)
    return count;
  uint64_t word = from / kWordBits;
  uint64_t bits = freeBits[word] & (~uint64_t(0) << from % kWordBits);
  while (bits == 0) {
    if (++word == freeBits.size())
      return count;
    bits = freeBits[word];
  }
  return word * kWordBits + static_cast<uint64_t>(std::countr_zero(bits));
}

uint64_t PagePool::nextUsed(uint64_t from) const {
  uint64_t word = from / kWordBits;
  uint64_t bits = ~freeBits[word] & (~uint64_t(0) << from % kWordBits);
  while (bits == 0) {
    if (++word == freeBits.size())
      return count;
    bits = ~freeBits[word];
  }
  return std::min(count, word * kWordBits + static_cast<uint64_t>(std::countr_zero(bits)));
}

bool PagePool::findRun(uint64_t length, uint64_t &first) const {
  for (first = nextFree(0); first + length <= count;) {
    uint64_t end = nextUsed(first);
    if (end - first >= length)
      return true;
    first = nextFree(end);
  }
  return false;
}

bool PagePool::isFree(uint64_t page) const {
  return freeBits[page / kWordBits] >> page % kWordBits & 1;
}

void PagePool::take(uint64_t page) {
  freeBits[page / kWordBits] &= ~(uint64_t(1) << page % kWordBits);
  --freeCount;
}

bool PagePool::allocate(std::span<uint32_t> pages) {
  if (pages.size() > freeCount)
    return false;
  uint64_t page;
  const bool isRun = findRun(pages.size(), page);
  if (!isRun)
    page = nextFree(0);
  for (uint32_t &out : pages) {
    out = static_cast<uint32_t>(page);
    take(page);
    page = isRun ? page + 1 : nextFree(page + 1);
  }
  return true;
}

void PagePool::claim(std::span<const uint32_t> pages) {
  for (uint64_t page : pages) {
    assert(page < count && isFree(page) && "a page was claimed twice");
    take(page);
  }
}

void PagePool::release(std::span<const uint32_t> pages) {
  for (uint64_t page : pages) {
    assert(!isFree(page) && "a page was freed twice");
    freeBits[page / kWordBits] |= uint64_t(1) << page % kWordBits;
    ++freeCount;
  }
}

} // namespace moert
