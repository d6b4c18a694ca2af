#include "compiler/plan/OperationTimes.h"

#include <doctest/doctest.h>

using namespace moec;

/// Two cores: 1 ns for a weight of int8 with one thread, half of it with both, 2 and 1 of f32; 100
/// ns for each operation that is shared out.
static DeviceProfile twoCores() {
  constexpr Origin kMeasured = Origin::kMeasured;
  DeviceProfile device;
  device.cores = 2;
  device.dispatchNs = {100, kMeasured};
  device.memoryBytesPerSecond = {{2e9, kMeasured}, {2e9, kMeasured}};
  device.attentionBytesPerSecond = {{1e9, kMeasured}, {2e9, kMeasured}};
  device.attentionMemoryBytesPerSecond = {{1e9, kMeasured}, {1e9, kMeasured}};
  for (uint32_t threads : {1u, 2u})
    for (uint32_t tokens : {1u, 32u}) {
      device.products.push_back({"int8", tokens, threads, {}, {threads * 1e9, kMeasured}});
      device.products.push_back({"f32", tokens, threads, {}, {threads * 5e8, kMeasured}});
    }
  return device;
}

TEST_CASE("products with the same rows cost one dispatch together") {
  const DeviceProfile device = twoCores();
  OperationTimes times(device, {2, 1});
  const StoredMatrix matrix{"int8", 1024, 1024};
  const double weights = 1024 * 1024;
  CHECK(times.product(matrix).firstNs == doctest::Approx(100 + weights / 2));
  const StoredMatrix both[] = {matrix, matrix};
  CHECK(times.products(both).firstNs == doctest::Approx(100 + weights));
  CHECK(times.network(matrix, matrix, matrix).firstNs == doctest::Approx(200 + 3 * weights / 2));
}

TEST_CASE("small products are computed by one thread, until several together are worth two") {
  const DeviceProfile device = twoCores();
  OperationTimes times(device, {2, 1});
  const StoredMatrix small{"f32", 16, 1024};
  CHECK(times.product(small).firstNs == doctest::Approx(2 * 16 * 1024));
  const StoredMatrix five[] = {small, small, small, small, small};
  CHECK(times.products(five).firstNs == doctest::Approx(100 + 5 * 16 * 1024));
}

TEST_CASE("more threads than the device has cores compute no faster") {
  const DeviceProfile device = twoCores();
  const StoredMatrix matrix{"int8", 1024, 1024};
  CHECK(OperationTimes(device, {8, 1}).product(matrix).firstNs ==
        OperationTimes(device, {2, 1}).product(matrix).firstNs);
}

TEST_CASE("further tokens cost what the rates of several say") {
  DeviceProfile device = twoCores();
  device.products[2].multiplyAddsPerSecond.value = 4e9; // int8, 32 tokens, one thread.
  OperationTimes times(device, {1, 1});
  const TokenCost cost = times.product({"int8", 1024, 1024});
  const double weights = 1024 * 1024;
  CHECK(cost.of(1) == doctest::Approx(weights));
  CHECK(cost.of(32) == doctest::Approx(8 * weights));
  device.products[2].multiplyAddsPerSecond.value = 64e9; // 32 in half of the time of one.
  CHECK(OperationTimes(device, {1, 1}).product({"int8", 1024, 1024}).furtherNs == 0);
}

TEST_CASE("heads that share keys and values bring them from memory once") {
  const DeviceProfile device = twoCores();
  OperationTimes times(device, {1, 10});
  const double perHead = 10 * (8 + 8) * 4;
  CHECK(times.attention({4, 4, 8, 8, 0}).firstNs == doctest::Approx(8 * perHead));
  CHECK(times.attention({4, 1, 8, 8, 0}).firstNs == doctest::Approx(5 * perHead));
  CHECK(times.attention({4, 1, 8, 8, 5}).firstNs == doctest::Approx(5 * perHead / 2));
}

TEST_CASE("times are called by the worst of what they were made of") {
  DeviceProfile device = twoCores();
  device.attentionMemoryBytesPerSecond.oneThread.origin = Origin::kAssumed;
  OperationTimes times(device, {1, 1});
  times.product({"int8", 1024, 1024});
  CHECK(times.origin() == Origin::kMeasured);
  times.attention({4, 1, 8, 8, 0});
  CHECK(times.origin() == Origin::kAssumed);
}
