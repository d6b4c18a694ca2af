#include "runtime/memory/PagePool.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <set>
#include <vector>

using namespace moert;

/// The allocated pages; empty if fewer are free.
static std::vector<uint32_t> take(PagePool &pool, size_t count) {
  std::vector<uint32_t> pages(count);
  if (!pool.allocate(pages))
    pages.clear();
  return pages;
}

TEST_CASE("a pool hands out every page once and refuses more than it has") {
  for (uint64_t count : {1, 63, 64, 65, 200}) {
    PagePool pool(count);
    CHECK(pool.pageCount() == count);
    CHECK(take(pool, count + 1).empty());
    CHECK(pool.freePages() == count);
    std::vector<uint32_t> all = take(pool, count);
    CHECK(std::set<uint32_t>(all.begin(), all.end()).size() == count);
    CHECK(pool.freePages() == 0);
    CHECK(take(pool, 1).empty());
    pool.release(all);
    CHECK(take(pool, count).size() == count);
  }
}

TEST_CASE("a run of adjacent pages is preferred to scattered pages before it") {
  PagePool pool(100);
  std::vector<uint32_t> all = take(pool, 100);
  for (uint32_t free : {3, 5, 62, 63, 64, 65, 90})
    pool.release({&all[free], 1});
  CHECK(take(pool, 4) == std::vector<uint32_t>{62, 63, 64, 65});
}

TEST_CASE("without a run long enough the free pages come in ascending order") {
  PagePool pool(100);
  std::vector<uint32_t> all = take(pool, 100);
  for (uint32_t free : {90, 5, 6, 70, 3})
    pool.release({&all[free], 1});
  CHECK(take(pool, 4) == std::vector<uint32_t>{3, 5, 6, 70});
  CHECK(pool.freePages() == 1);
}

TEST_CASE("after any sequence of allocating and freeing, no page has two owners and none is lost") {
  PagePool pool(150);
  std::mt19937 random(1);
  std::vector<std::vector<uint32_t>> held;
  std::set<uint32_t> taken;
  for (int step = 0; step < 3000; ++step) {
    size_t wish = 1 + random() % 20;
    if (random() % 2 == 0) {
      std::vector<uint32_t> pages = take(pool, wish);
      REQUIRE(pages.size() == (wish <= 150 - taken.size() ? wish : 0));
      for (uint32_t page : pages)
        REQUIRE(taken.insert(page).second);
      held.push_back(pages);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      pool.release(held.back());
      for (uint32_t page : held.back())
        taken.erase(page);
      held.pop_back();
    }
    REQUIRE(pool.freePages() == 150 - taken.size());
  }
}

TEST_CASE("claimed pages are allocated to nobody else until they are released") {
  PagePool pool(70);
  const std::vector<uint32_t> claimed = {0, 2, 66};
  pool.claim(claimed);
  CHECK(pool.freePages() == 67);
  std::vector<uint32_t> rest = take(pool, 67);
  CHECK(rest.size() == 67);
  for (uint32_t page : claimed)
    CHECK(std::count(rest.begin(), rest.end(), page) == 0);
  pool.release(claimed);
  CHECK(take(pool, 3) == claimed);
}
