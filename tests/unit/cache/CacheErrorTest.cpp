// What the cache does when a disk or an artifact lets it down.
#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/cache/FakeReadQueue.h"

#include <doctest/doctest.h>

using namespace moert;

using Experts = std::vector<uint32_t>;

static FakeModel sixteenExperts() {
  return FakeModel({std::vector<uint64_t>(16, 2)});
}

/// Layer passes until the error; its message.
static std::string errorOf(CacheUnderTest &test, const Experts &wanted) {
  Status begun = test.cache->beginLayer(0, {wanted});
  if (!begun.isOk())
    return begun.message();
  for (;;) {
    Result<int> index = test.cache->nextReady();
    if (!index.isOk())
      return index.status().message();
    if (*index < 0)
      return test.cache->endLayer().message();
    Status released = test.cache->release(*index);
    if (!released.isOk())
      return released.message();
  }
}

TEST_CASE("a wrong checksum names layer, expert and slice, and both numbers") {
  FakeModel model = sixteenExperts();
  uint64_t expected = model.slices[0][5][1].checksum;
  model.file[model.records[0][5].fileOffset + kBlock] ^= std::byte(1);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {8}, 4);
  std::string message = errorOf(test, {4, 5, 6});
  uint64_t found = checksum64({&model.file[model.records[0][5].fileOffset + kBlock], kBlock - 100});
  CHECK(message == strCat("m.moe: layer 3 expert 5: slice 1 has checksum ", std::hex, found,
                          ", expected ", expected));
}

TEST_CASE("threads look at what is ready together, as much of it as keeps all of them busy") {
  FakeModel model({std::vector<uint64_t>(4, 1)}); // One slice each.
  model.file[model.records[0][1].fileOffset] ^= std::byte(1);
  model.file[model.records[0][3].fileOffset] ^= std::byte(1);
  auto firstError = [&](std::vector<uint32_t> wanted, ThreadPool *threads) {
    FakeReadQueue queue(model.file);
    queue.eager = 4;
    queue.choose = [](size_t underWay) { return underWay - 1; };
    CacheUnderTest test(model, queue, {0}, 4, kBlock, monotonicNs, {}, false, threads);
    REQUIRE(test.cache->beginLayer(0, {wanted}).isOk());
    int handedOut = 0;
    for (Result<int> next = test.cache->nextReady(); next.isOk() && *next >= 0;
         next = test.cache->nextReady())
      ++handedOut;
    return handedOut;
  };
  std::unique_ptr<ThreadPool> two = ThreadPool::create(2).value();
  // The last one asked for arrives first.
  CHECK(firstError({2, 1, 0}, nullptr) == 1);
  CHECK(firstError({2, 1, 0}, two.get()) == 0);
  CHECK(firstError({3, 2, 0}, two.get()) == 2);
}

TEST_CASE("a changed padding byte is no error, for no kernel reads it") {
  FakeModel model = sixteenExperts();
  model.file[model.records[0][5].fileOffset + kBlock - 1] ^= std::byte(1);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {8}, 4);
  CHECK(errorOf(test, {5}) == "");
}

TEST_CASE(
    "after a wrong checksum no read is under way, the bytes are gone, the rest is executed on") {
  FakeModel model = sixteenExperts();
  std::byte &spoiled = model.file[model.records[0][5].fileOffset];
  spoiled ^= std::byte(1);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {8}, 4);
  CHECK(errorOf(test, {5, 6, 7, 8}) != "");
  CHECK(queue.readsUnderWay() == 0);
  CHECK(!test.cache->isReady(0, 5));
  spoiled ^= std::byte(1);
  CHECK(test.runPass(0, {5, 6, 7, 8}).size() == 4);
}

TEST_CASE("experts that arrived while a pass failed are checked before they are used") {
  FakeModel model = sixteenExperts();
  model.file[model.records[0][6].fileOffset] ^= std::byte(1);
  FakeReadQueue queue(model.file);
  queue.failingOffset = model.records[0][5].fileOffset;
  CacheUnderTest test(model, queue, {8}, 4);
  CHECK(errorOf(test, {5, 6}).starts_with("layer 3 expert 5: fake.moe: read at offset "));
  CHECK(errorOf(test, {6}).starts_with("m.moe: layer 3 expert 6: slice 0"));
}

TEST_CASE("a failed read is an error that names the expert, and the expert is read again later") {
  FakeModel model = sixteenExperts();
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {8}, 4);
  queue.failingOffset = model.records[0][2].fileOffset;
  CHECK(errorOf(test, {1, 2, 3}) == strCat("layer 3 expert 2: fake.moe: read at offset ",
                                           model.records[0][2].fileOffset, " failed"));
  CHECK(queue.readsUnderWay() == 0);
  queue.failingOffset = UINT64_MAX;
  CHECK(test.runPass(0, {1, 2, 3}).size() == 3);
  CHECK(test.cache->pagesHeld(0) == 6);
}

TEST_CASE("a read that cannot be started gives its pages back") {
  FakeModel model = sixteenExperts();
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {8}, 4);
  queue.submitsUntilError = 2;
  CHECK(errorOf(test, {1, 2, 3}) == "layer 3 expert 3: fake: submit refused");
  CHECK(queue.readsUnderWay() == 0);
  for (int round = 0; round < 4; ++round)
    test.runPass(0, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(test.cache->pagesHeld(0) == 8);
}

TEST_CASE("once the queue is broken the cache refuses to work on") {
  FakeModel model = sixteenExperts();
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {8}, 4);
  queue.isBroken = true;
  CHECK(errorOf(test, {1}) == "fake: broken");
  queue.isBroken = false;
  CHECK(test.cache->beginLayer(0, {Experts{1}}).message() == "fake: broken");
}

TEST_CASE("no page changes its owner once the queue broke at a submit") {
  FakeModel model({std::vector<uint64_t>(16, 2), std::vector<uint64_t>(16, 2)});
  for (uint64_t submits : {0, 1}) {
    for (bool isPrefetch : {false, true}) {
      CAPTURE(submits);
      CAPTURE(isPrefetch);
      FakeReadQueue queue(model.file);
      CacheUnderTest test(model, queue, {8, 8}, 8);
      test.runPass(0, {10, 11});
      queue.submitsUntilError = submits;
      queue.breaksAtError = true;
      const std::string error = "fake: broken at submit";
      std::vector<std::byte> before(test.pool.data(), test.pool.data() + test.pool.bytes());
      if (isPrefetch) {
        test.prefetch(1, {1, 2, 3});
        (void)test.cache->beginLayer(0, {Experts{10}}); // Begins the prefetches.
      } else {
        CHECK(errorOf(test, {1, 2, 3}).ends_with(error));
      }
      CHECK(!queue.broken().isOk());
      const size_t submitted = queue.submitted;
      CHECK(test.cache->advance().message() == error);
      CHECK(test.cache->beginLayer(0, {Experts{4, 5}}).message() == error);
      CHECK(test.cache->nextReady().status().message() == error);
      CHECK(test.cache->endLayer().message() == error);
      CHECK(test.cache->fill(0, {Experts{4}}).message() == error);
      CHECK(test.cache->beginPrompt().message() == error);
      CHECK(test.cache->pin(0, 4).message() == error);
      test.cache->abandonPass();
      CHECK(queue.submitted == submitted);
      // What was there is there, and what arrives late does not hit it.
      CHECK(test.readyIn(0) == Experts{10, 11});
      CHECK(std::equal(before.begin(), before.end(), test.pool.data()));
      queue.landAll();
      uint64_t changed = 0;
      for (uint64_t page = 0; page < test.pool.bytes(); page += kBlock)
        changed += std::memcmp(&before[page], test.pool.data() + page, kBlock) != 0;
      CHECK(changed == 2 * (submits + 1));
      test.cache.reset();
    }
  }
}

TEST_CASE("a cache that goes away in the middle of a pass waits for its reads") {
  FakeModel model = sixteenExperts();
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {8}, 4);
  REQUIRE(test.cache->beginLayer(0, {Experts{1, 2, 3}}).isOk());
  CHECK(queue.readsUnderWay() == 3);
  test.cache.reset();
  CHECK(queue.readsUnderWay() == 0);
}

/// The message of create() for a configuration that `change` made from a good one.
template <typename Change> static std::string refusal(Change change) {
  FakeModel model = sixteenExperts();
  FakeReadQueue queue(model.file);
  CacheUnderTest good(model, queue, {4}, 2);
  CacheConfig config = good.config;
  change(config, good.layers[0], model);
  return ExpertCache::create(config, queue).status().message();
}

TEST_CASE("configurations that cannot work are refused with their numbers") {
  CHECK(refusal([](CacheConfig &, CacheLayer &, FakeModel &) {}) == "");
  CHECK(refusal([](CacheConfig &c, CacheLayer &, FakeModel &) { c.pageBytes = 5000; }) ==
        "m.moe: the page size is 5000, expected a power of two from 4096 to 1048576");
  CHECK(refusal([](CacheConfig &c, CacheLayer &, FakeModel &) { c.pageBytes = 1 << 21; }) != "");
  CHECK(refusal([](CacheConfig &c, CacheLayer &, FakeModel &) { c.stagingPages = 3; }) ==
        "m.moe: the expert cache has 6 pages, its layers and the staging pages need 7");
  CHECK(refusal([](CacheConfig &c, CacheLayer &l, FakeModel &) {
          l.quotaPages = 1;
          c.stagingPages = 0;
        }) == "m.moe: layer 3 has 1 pages and 0 in staging, its largest record needs 2");
  CHECK(refusal([](CacheConfig &, CacheLayer &l, FakeModel &) { l.quotaPages = UINT64_MAX; }) !=
        "");
  CHECK(refusal([](CacheConfig &c, CacheLayer &, FakeModel &) { c.pool = c.pool.subspan(8); }) ==
        "m.moe: the expert cache's memory is not aligned at 4096");
}

TEST_CASE("more pages than a number of 32 bits counts are refused") {
  CHECK(refusal([](CacheConfig &c, CacheLayer &, FakeModel &) {
          c.pool = {c.pool.data(), (uint64_t(UINT32_MAX) + 1) * 4096}; // Never touched.
        }) == "m.moe: the expert cache has 4294967296 pages, expected at most 4294967295");
}

TEST_CASE("records that cannot be right are refused by layer and expert") {
  auto isRefused = [](auto change) {
    return refusal([&](CacheConfig &, CacheLayer &, FakeModel &m) {
             change(m.records[0][7], m.slices[0][7]);
           })
        .starts_with("m.moe: layer 3 expert 7: ");
  };
  using Slices = std::vector<RecordSlice>;
  CHECK(isRefused([](ExpertRecord &r, Slices &) { r.fileOffset += 512; }));
  CHECK(isRefused([](ExpertRecord &r, Slices &) { r.bytes = 0; }));
  CHECK(isRefused([](ExpertRecord &r, Slices &) { r.bytes = 100 * kBlock; }));
  CHECK(isRefused([](ExpertRecord &r, Slices &) { r.bytes = uint64_t(0) - kBlock; }));
  CHECK(isRefused([](ExpertRecord &r, Slices &) { r.slices = {}; }));
  CHECK(isRefused([](ExpertRecord &r, Slices &s) { r.slices = std::span(s).first(1); }));
  CHECK(isRefused([](ExpertRecord &, Slices &s) { s[1].offset = 0; }));
  CHECK(isRefused([](ExpertRecord &, Slices &s) { s[1].bytes = 2 * kBlock; }));
  CHECK(isRefused([](ExpertRecord &, Slices &s) { s[0].payloadBytes = kBlock + 1; }));
  CHECK(isRefused([](ExpertRecord &, Slices &s) { s[1].bytes = 0; }));
}
