// The cache over real files and every read queue of this system.
#include "tests/unit/cache/CacheFixture.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <numeric>
#include <random>
#include <unistd.h>

using namespace moert;

TEST_CASE("from a real disk the right bytes come, whichever way they are read") {
  FakeModel model({std::vector<uint64_t>(24, 16), std::vector<uint64_t>(24, 16)});
  char path[] = "expert-cache-test-XXXXXX";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, model.file.data(), model.file.size()) ==
          static_cast<ssize_t>(model.file.size()));
  close(fd);
  {
    ArtifactFile file = ArtifactFile::open(path).value();
    for (IoBackend backend : {IoBackend::kUring, IoBackend::kThreads, IoBackend::kBuffered}) {
      ReadQueueOptions options;
      options.backend = backend;
      options.maxReads = 8;
      options.maxRequestBytes = 4 * kBlock;
      Result<std::unique_ptr<ReadQueue>> queue = createReadQueue(file, options);
      if (!queue.isOk()) {
        MESSAGE("SKIPPED: " << queue.status().message());
        continue;
      }
      CacheUnderTest test(model, **queue, {5 * 8, 0}, 2 * 8, 2 * kBlock);
      std::mt19937 random(2);
      for (int round = 0; round < 30; ++round) {
        std::vector<uint32_t> wanted(24);
        std::iota(wanted.begin(), wanted.end(), 0);
        std::shuffle(wanted.begin(), wanted.end(), random);
        wanted.resize(1 + random() % 24);
        CHECK(test.runPass(random() % 2, wanted).size() == wanted.size());
      }
      CHECK(test.cache->totalCounts().hits > 0);
      CHECK(test.cache->totalTimes().waitNs > 0);
      CHECK(test.cache->totalTimes().verifyNs > 0);
      const ReadTimes &reads = test.cache->readTimes();
      CHECK(reads.reads > 0);
      CHECK(reads.busyNs > 0);
      // Several reads of a layer pass are under way together, and never more than the queue takes.
      CHECK(reads.underWayNs > reads.busyNs);
      CHECK(reads.underWayNs <= options.maxReads * reads.busyNs);
    }
  }
  unlink(path);
}
