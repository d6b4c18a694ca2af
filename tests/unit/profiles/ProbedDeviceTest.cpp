// The compiler reads what the probe writes. With MOE_PROBED_DEVICE it reads a file that the program
// wrote; otherwise the probe runs here with a clock twenty times too fast, so that it ends quickly
// and its rates are meaningless.
#include "compiler/plan/DeviceTimes.h"
#include "profiles/DeviceFile.h"
#include "tools/moert/probe/MachineProbe.h"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <string>
#include <vector>

using namespace moec;

namespace {

uint64_t hastyNs() {
  return 20 * moert::monotonicNs();
}

/// `steps`: the names of the measured steps in order, without immediate repetitions.
std::string probedYaml(uint32_t threads, std::vector<std::string> *steps = nullptr) {
  moert::probe::ProbeRun run(
      hastyNs, [] { return false; },
      [&](std::string_view step, uint64_t, uint64_t) {
        if (steps && (steps->empty() || steps->back() != step))
          steps->emplace_back(step);
      });
  moert::probe::DeviceReport report;
  report.remarks = {"A remark: with a colon, 'quotes' and {braces}"};
  report.name = "the machine: of \"this\" test\u2122\x1b";
  report.totalMemoryBytes = 8589934592;
  report.availableMemoryBytes = 4294967296;
  constexpr uint64_t kFileBytes = 64 << 20;
  moert::Result<moert::probe::ProbeFile> file = moert::probe::ProbeFile::create(
      run, std::filesystem::temp_directory_path().string(), kFileBytes, kFileBytes, 1);
  REQUIRE_MESSAGE(file.isOk(), file.status().message());
  const moert::Status status =
      moert::probe::probeMachine(run, *file, moert::bestKernels(), threads, report);
  REQUIRE_MESSAGE(status.isOk(), status.message());
  return moert::probe::toYaml(report);
}

DeviceProfile readBack(const std::string &yaml) {
  const moert::Result<DeviceProfile> device = parseDevice(yaml, "probed.yaml");
  REQUIRE_MESSAGE(device.isOk(), device.status().message());
  return *device;
}

} // namespace

TEST_CASE("the probe writes a device profile with every table and rate") {
  const DeviceProfile device = readBack(probedYaml(2));
  CHECK(device.name == "the machine: of \"this\" test????");
  CHECK(device.isa == moert::bestKernels().name);
  CHECK(device.cores == 2);
  CHECK(device.totalMemoryBytes == Quantity{8589934592.0, Origin::kMeasured});
  if (device.ioBackend != "buffered") {
    CHECK(device.directReads.sizes.size() == 6);
    CHECK(std::ranges::count(device.directReads.sizes,
                             moert::ReadQueueOptions().maxBytesUnderWay) == 1);
    CHECK(device.directReads.depths == std::vector<uint32_t>{1, 2, 4, 8, 16});
  }
  CHECK(device.fractionWhileReading.origin == Origin::kMeasured);
  CHECK(device.fractionWhileComputing.origin == Origin::kMeasured);
  CHECK(device.submitNsPerMiB.value > 0);
  CHECK(device.wakeNs.origin == Origin::kMeasured);
  CHECK(device.attentionMemoryBytesPerSecond.oneThread.origin == Origin::kMeasured);
  CHECK(device.bufferedReads.depths == std::vector<uint32_t>{1, 4, 16});
  CHECK(device.products.size() == kProductWeights.size() * 4);
}

TEST_CASE("the probe measures disk and processor in turn, round by round") {
  std::vector<std::string> steps;
  probedYaml(2, &steps);
  for (const char *step : {"reading through the page cache", "attending"})
    CHECK(std::count(steps.begin(), steps.end(), step) == moert::probe::kRounds);
}

TEST_CASE("the probe idles the disk for as long as the replay's definition of a rest") {
  CHECK(moert::probe::kRestNs == kDiskRestNs);
}

TEST_CASE(
    "the probe's memory has the size that the tables assume, and a slow disk has no reuse points") {
  CHECK(moert::probe::kProbeMemoryBytes == kLongUnusedBytes);
  std::vector<std::string> steps;
  const DeviceProfile device = readBack(probedYaml(1, &steps));
  // With this clock the disk is many times slower than memory, unless it is a memory disk.
  if (plannedReads(device).bytesPerSecond.back().value < 0.2e9)
    CHECK(plannedReads(device).reused.empty());
  const auto turns = std::count(steps.begin(), steps.end(), "reading into the same memory");
  CHECK(turns == (device.ioBackend == "buffered" ? 0 : moert::probe::kRounds));
}

TEST_CASE("a probe with a single thread is a device profile of one core") {
  const DeviceProfile device = readBack(probedYaml(1));
  CHECK(device.cores == 1);
  CHECK(device.products.size() == kProductWeights.size() * 2);
  CHECK(device.memoryBytesPerSecond.allThreads == device.memoryBytesPerSecond.oneThread);
}

TEST_CASE("a file that the program wrote is a device profile of this machine") {
  const char *path = std::getenv("MOE_PROBED_DEVICE");
  if (path == nullptr) {
    MESSAGE("SKIPPED: no MOE_PROBED_DEVICE; the end-to-end tests give one");
    return;
  }
  const moert::Result<DeviceProfile> device = readDeviceFile(path);
  REQUIRE_MESSAGE(device.isOk(), device.status().message());
  CHECK(device->isa == moert::bestKernels().name);
  CHECK(device->dispatchNs.origin == Origin::kMeasured);
}
