#include "runtime/cache/PagePool.h"

#include <doctest/doctest.h>
#include <random>
#include <set>
#include <vector>

using namespace moert;

static constexpr uint64_t kPageBytes = 16; // The pool does not mind; no page is ever touched.

struct PoolUnderTest {
  explicit PoolUnderTest(uint64_t pages) : memory(pages * kPageBytes), pool(memory, kPageBytes) {}
  std::vector<std::byte *> take(size_t count) {
    std::vector<std::byte *> pages(count);
    if (!pool.allocate(pages))
      pages.clear();
    return pages;
  }
  uint64_t numberOf(const std::byte *page) const {
    return static_cast<uint64_t>(page - memory.data()) / kPageBytes;
  }
  std::vector<uint64_t> numbersOf(const std::vector<std::byte *> &pages) const {
    std::vector<uint64_t> numbers;
    for (const std::byte *page : pages)
      numbers.push_back(numberOf(page));
    return numbers;
  }
  std::vector<std::byte> memory;
  PagePool pool;
};

TEST_CASE("a pool gives every page once and refuses more than it has") {
  for (uint64_t count : {1, 63, 64, 65, 200}) {
    PoolUnderTest test(count);
    CHECK(test.pool.pageCount() == count);
    CHECK(test.take(count + 1).empty());
    CHECK(test.pool.freePages() == count);
    std::vector<std::byte *> all = test.take(count);
    CHECK(std::set<std::byte *>(all.begin(), all.end()).size() == count);
    CHECK(test.pool.freePages() == 0);
    CHECK(test.take(1).empty());
    test.pool.release(all);
    CHECK(test.take(count).size() == count);
  }
}

TEST_CASE("a run of neighbours is preferred to scattered pages before it") {
  PoolUnderTest test(100);
  std::vector<std::byte *> all = test.take(100);
  for (size_t free : {3, 5, 62, 63, 64, 65, 90})
    test.pool.release({&all[free], 1});
  CHECK(test.numbersOf(test.take(4)) == std::vector<uint64_t>{62, 63, 64, 65});
}

TEST_CASE("without a run long enough the free pages come in ascending order") {
  PoolUnderTest test(100);
  std::vector<std::byte *> all = test.take(100);
  for (size_t free : {90, 5, 6, 70, 3})
    test.pool.release({&all[free], 1});
  CHECK(test.numbersOf(test.take(4)) == std::vector<uint64_t>{3, 5, 6, 70});
  CHECK(test.pool.freePages() == 1);
}

TEST_CASE("whatever is taken and given back, no page has two holders and none is lost") {
  PoolUnderTest test(150);
  std::mt19937 random(1);
  std::vector<std::vector<std::byte *>> held;
  std::set<std::byte *> taken;
  for (int step = 0; step < 3000; ++step) {
    size_t wish = 1 + random() % 20;
    if (random() % 2 == 0) {
      std::vector<std::byte *> pages = test.take(wish);
      REQUIRE(pages.size() == (wish <= 150 - taken.size() ? wish : 0));
      for (std::byte *page : pages)
        REQUIRE(taken.insert(page).second);
      held.push_back(pages);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      test.pool.release(held.back());
      for (std::byte *page : held.back())
        taken.erase(page);
      held.pop_back();
    }
    REQUIRE(test.pool.freePages() == 150 - taken.size());
  }
}
