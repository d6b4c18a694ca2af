#include "runtime/cache/PagePool.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace moert {

static constexpr uint64_t kWordBits = 64;

PagePool::PagePool(std::span<std::byte> memory, uint64_t bytesPerPage)
    : base(memory.data()), pageBytes(bytesPerPage), count(memory.size() / bytesPerPage),
      freeCount(count), freeBits(divideUp(count, kWordBits), ~uint64_t(0)) {
  assert(std::has_single_bit(pageBytes));
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

void PagePool::take(uint64_t page) {
  freeBits[page / kWordBits] &= ~(uint64_t(1) << page % kWordBits);
  --freeCount;
}

bool PagePool::allocate(std::span<std::byte *> pages) {
  if (pages.size() > freeCount)
    return false;
  uint64_t page;
  if (!findRun(pages.size(), page))
    page = nextFree(0);
  for (std::byte *&out : pages) {
    out = base + page * pageBytes;
    take(page);
    page = nextFree(page + 1);
  }
  return true;
}

void PagePool::release(std::span<std::byte *const> pages) {
  for (std::byte *data : pages) {
    uint64_t page = static_cast<uint64_t>(data - base) / pageBytes;
    uint64_t bit = uint64_t(1) << page % kWordBits;
    assert(!(freeBits[page / kWordBits] & bit) && "a page was given back twice");
    freeBits[page / kWordBits] |= bit;
    ++freeCount;
  }
}

} // namespace moert
