#include "compiler/plan/DeviceTimes.h"

#include <cmath>
#include <doctest/doctest.h>

using namespace moec;

namespace {

constexpr Origin kMeasured = Origin::kMeasured;

/// 4 KiB reads take 100 us alone and 200 us of four; 1 MiB 1 ms alone and 4 ms of four.
ReadTable someReads() {
  constexpr double kKiB = 1024, kMiB = 1024 * kKiB;
  return {{4096, 1 << 20},
          {1, 4},
          {{4 * kKiB / 100e-6, kMeasured},
           {4 * 4 * kKiB / 200e-6, kMeasured},
           {kMiB / 1e-3, kMeasured},
           {4 * kMiB / 4e-3, kMeasured}}};
}

ProductRate rate(const char *weights, uint32_t tokens, uint32_t threads, double multiplyAdds) {
  return {weights, tokens, threads, {1e9, kMeasured}, {multiplyAdds, kMeasured}};
}

/// Four cores; one token costs 1 ns a weight, 16 tokens 2 ns; with all cores half of that.
DeviceProfile someDevice() {
  DeviceProfile device;
  device.cores = 4;
  for (const char *weights : {"int8", "f32"}) {
    device.products.push_back(rate(weights, 1, 1, 1e9));
    device.products.push_back(rate(weights, 16, 1, 8e9));
    device.products.push_back(rate(weights, 1, 4, 2e9));
    device.products.push_back(rate(weights, 16, 4, 16e9));
  }
  device.attentionBytesPerSecond = {{1e9, kMeasured}, {4e9, kMeasured}};
  device.attentionMemoryBytesPerSecond = {{5e8, kMeasured}, {1e9, kMeasured}};
  return device;
}

} // namespace

TEST_CASE("a read of a measured size and depth takes the measured time") {
  const Quantity time = readNs(someReads(), 1 << 20, 4);
  CHECK(time.value == doctest::Approx(4e6));
  CHECK(time.origin == kMeasured);
  CHECK(readNs(someReads(), 4096, 1).value == doctest::Approx(100e3));
}

TEST_CASE("a read between two sizes or depths takes a time between theirs, which is derived") {
  // 64 KiB is half way from 4 KiB to 1 MiB, depth 2 from 1 to 4, by logarithm.
  const Quantity bySize = readNs(someReads(), 64 << 10, 1);
  CHECK(bySize.value == doctest::Approx(std::sqrt(100e3 * 1e6)));
  CHECK(bySize.origin == Origin::kDerived);
  CHECK(readNs(someReads(), 4096, 2).value == doctest::Approx(std::sqrt(100e3 * 200e3)));
}

TEST_CASE(
    "memory that was read into lately has a factor of its own, which nears 1 by the logarithm") {
  constexpr uint64_t kMiB = 1 << 20;
  ReadTable reads = someReads();
  CHECK(ReusedFactors(reads).of(4096) == 1);
  reads.reused = {{8 * kMiB, {1.2, kMeasured}}, {32 * kMiB, {1.1, kMeasured}}};
  CHECK(ReusedFactors(reads).of(0) == 1.2);
  CHECK(ReusedFactors(reads).of(8 * kMiB) == 1.2);
  CHECK(ReusedFactors(reads).of(16 * kMiB) == doctest::Approx(1.15));
  CHECK(ReusedFactors(reads).of(32 * kMiB) == doctest::Approx(1.1));
  CHECK(ReusedFactors(reads).of(64 * kMiB) == doctest::Approx(1.05)); // Half way to 128 MiB.
  CHECK(ReusedFactors(reads).of(kLongUnusedBytes) == 1);
}

TEST_CASE("a read takes no longer than smaller ones, one after the other, of as many bytes") {
  ReadTable reads = someReads();
  reads.bytesPerSecond[2].value = reads.bytesPerSecond[0].value / 5; // 1 MiB, alone.
  const Quantity time = readNs(reads, 1 << 20, 1);
  CHECK(time.value == doctest::Approx(100e3 * (1 << 20) / 4096));
  CHECK(time.origin == Origin::kDerived);
}

TEST_CASE("beyond the table a small read costs a request, a large one its bytes, and many share "
          "the disk") {
  CHECK(readNs(someReads(), 512, 1).value == doctest::Approx(100e3));
  CHECK(readNs(someReads(), 8 << 20, 1).value == doctest::Approx(8e6));
  CHECK(readNs(someReads(), 1 << 20, 16).value == doctest::Approx(16e6));
  CHECK(readNs(someReads(), 8 << 20, 1).origin == Origin::kDerived);
}

TEST_CASE(
    "a product takes the measured time, and evenly more for tokens between two measured numbers") {
  const DeviceProfile device = someDevice();
  CHECK(productNs(device, {"int8", 1000, 1, 1}).value == doctest::Approx(1000));
  CHECK(productNs(device, {"int8", 1000, 1, 1}).origin == kMeasured);
  CHECK(productNs(device, {"int8", 1000, 16, 1}).value == doctest::Approx(2000));
  CHECK(productNs(device, {"int8", 1000, 4, 1}).value == doctest::Approx(1200));
  CHECK(productNs(device, {"int8", 1000, 4, 1}).origin == Origin::kDerived);
  CHECK(productNs(device, {"int8", 1000, 32, 1}).value == doctest::Approx(4000));
}

TEST_CASE("more threads make a product faster, up to the number of cores") {
  const DeviceProfile device = someDevice();
  CHECK(productNs(device, {"int8", 1000, 1, 4}).value == doctest::Approx(500));
  CHECK(productNs(device, {"int8", 1000, 1, 8}).value == doctest::Approx(500));
  // Two of four cores: a third of the way from 1e9 to 2e9.
  CHECK(productNs(device, {"int8", 1000, 1, 2}).value == doctest::Approx(750));
}

TEST_CASE("weights that were not measured take the rates of the next wider ones, and say so") {
  DeviceProfile device = someDevice();
  device.products[0].multiplyAddsPerSecond.value = 5e8; // int8, one token, one thread.
  CHECK(productNs(device, {"int2+1", 1000, 1, 1}).value == doctest::Approx(2000));
  CHECK(productNs(device, {"int2+1", 1000, 1, 1}).origin == Origin::kDerived);
  CHECK(productNs(device, {"bf16", 1000, 1, 1}).value == doctest::Approx(1000));
  CHECK(productNs(device, {"mxfp4", 1000, 1, 1}).value == doctest::Approx(1000));
  device.products.push_back(rate("int4", 1, 1, 4e9));
  CHECK(productNs(device, {"int2+1", 1000, 1, 1}).value == doctest::Approx(250));
  CHECK(productNs(device, {"int2+2", 1000, 1, 1}).value == doctest::Approx(250));
  CHECK(productNs(device, {"int2+2+2", 1000, 1, 1}).value == doctest::Approx(2000));
  device.products.push_back(rate("int2+2+2", 1, 1, 8e9));
  CHECK(productNs(device, {"int2+2+1", 1000, 1, 1}).value == doctest::Approx(125));
  CHECK(productNs(device, {"nl2+1", 1000, 1, 1}).value == doctest::Approx(2000));
  CHECK(productNs(device, {"nl4", 1000, 1, 1}).value == doctest::Approx(250));
}

TEST_CASE("there is a time for every width that a profile may name") {
  for (std::string_view weights : kProductWeights)
    CHECK_MESSAGE(productNs(someDevice(), {weights, 1000, 1, 1}).value > 0, weights);
}

TEST_CASE("attention takes the time of its keys and values for each head, and once from memory") {
  CHECK(attentionNs(someDevice(), {1000, 0, 1}).value == doctest::Approx(1000));
  CHECK(attentionNs(someDevice(), {1000, 100, 1}).value == doctest::Approx(1200));
  CHECK(attentionNs(someDevice(), {1000, 100, 4}).value == doctest::Approx(350));
}

TEST_CASE("what is computed from an assumption is an assumption") {
  ReadTable reads = someReads();
  reads.bytesPerSecond[1].origin = Origin::kAssumed;
  CHECK(readNs(reads, 4096, 2).origin == Origin::kAssumed);
  CHECK(worseOf(Origin::kMeasured, Origin::kStated) == Origin::kStated);
  CHECK(nameOf(Origin::kAssumed) == "assumed");
}
