#include "compiler/emit/OrderedPipeline.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>

using namespace moec;
using namespace moert;

static Status run(size_t count, unsigned threads,
                  const std::function<Result<size_t>(size_t)> &produce,
                  const std::function<Status(size_t, size_t)> &consume) {
  return runInOrder<size_t>(0, count, threads, produce, consume);
}

TEST_CASE("products are consumed in order, each once, although they are produced out of order") {
  for (unsigned threads : {1u, 3u, 8u}) {
    std::vector<size_t> seen;
    auto slowest = [](size_t i) -> Result<size_t> {
      std::this_thread::sleep_for(std::chrono::microseconds(i % 5 * 100));
      return i * i;
    };
    Status status = run(200, threads, slowest, [&](size_t i, size_t product) {
      CHECK(product == i * i);
      seen.push_back(i);
      return Status();
    });
    REQUIRE(status.isOk());
    REQUIRE(seen.size() == 200);
    for (size_t i = 0; i < 200; ++i)
      CHECK(seen[i] == i);
  }
}

TEST_CASE("at most two products for each thread exist at a time") {
  std::atomic<int> existing = 0, most = 0;
  auto produce = [&](size_t i) -> Result<size_t> {
    int now = ++existing;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    return i;
  };
  Status status = run(300, 4, produce, [&](size_t, size_t) {
    --existing;
    return Status();
  });
  REQUIRE(status.isOk());
  CHECK(most <= 8);
}

TEST_CASE("the first failure in order is the one that is returned") {
  auto produce = [](size_t i) -> Result<size_t> {
    if (i >= 10) // Later products fail earlier in time.
      return invalidInput("product ", i);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return i;
  };
  for (unsigned threads : {1u, 8u}) {
    size_t consumed = 0;
    Status status = run(100, threads, produce, [&](size_t, size_t) {
      ++consumed;
      return Status();
    });
    CHECK(status.message() == "product 10");
    CHECK(consumed == 10);
  }
}

TEST_CASE("a failing consumer ends the work") {
  std::atomic<size_t> produced = 0;
  auto produce = [&](size_t i) -> Result<size_t> {
    ++produced;
    return i;
  };
  Status status = run(10000, 4, produce, [&](size_t i, size_t) {
    return i == 5 ? Status(StatusCode::kInterrupted, "enough") : Status();
  });
  CHECK(status.code() == StatusCode::kInterrupted);
  CHECK(produced < 20);
}

TEST_CASE("no work is not a failure") {
  CHECK(run(
            0, 4, [](size_t i) -> Result<size_t> { return i; },
            [](size_t, size_t) { return failed("never"); })
            .isOk());
}
