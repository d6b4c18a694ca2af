#include "tests/unit/support/TemporaryDirectory.h"
#include "tools/moert/probe/DeviceYaml.h"
#include "tools/moert/probe/DiskProbe.h"
#include "tools/moert/probe/ProbeFile.h"
#include "tools/moert/probe/ProbeReader.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace moert;
using namespace moert::probe;

namespace {

constexpr uint64_t kMiB = 1 << 20;

ProbeRun quietRun() {
  return ProbeRun(
      monotonicNs, [] { return false; }, [](std::string_view, uint64_t, uint64_t) {});
}

DeviceReport someReport() {
  DeviceReport report;
  report.remarks = {"one remark"};
  report.name = "a machine";
  report.totalMemoryBytes = 8589934592;
  report.availableMemoryBytes = 4294967296;
  report.compute = {"avx2", 1, {1500}, {{1e10}, {1e10}}, {{2e10}, {2e10}}, {{5e9}, {6e9}}, {}, 1};
  report.contention = {{0.9}, {0.75}, {12345}, {6789}};
  report.compute.products.push_back({"int2+1", 32, 1, {1.23456e9}, {4e10}});
  report.disk.backend = IoBackend::kThreads;
  report.disk.cachedBytesPerSecond = {5e9};
  report.reuse = {{8 * kMiB, {1.25}}};
  report.disk.direct.push_back({4096, 1, {4e7, Origin::kDerived}});
  return report;
}

bool contains(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a sustained rate ignores an initial burst and one slow moment") {
  CHECK(sustainedRate({240, 200, 150, 201}) == 200);
  CHECK(sustainedRate({100, 200, 202, 201}) == 201);
}

TEST_CASE("the median is the middle measurement, of an even number the lower one") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 3, 2}) == 2);
  CHECK(median({7}) == 7);
}

TEST_CASE("a steady rate uses the mean time, without the fastest and the slowest fifth") {
  CHECK(steadyRate({8}) == 8);
  CHECK(steadyRate({2, 6}) == doctest::Approx(3)); // 1/2 and 1/6 of a second: 3 a second.
  CHECK(steadyRate({1000, 2, 0.001, 2, 2}) == doctest::Approx(2));
  CHECK(steadyRate({2, 1000, 2, 6, 0.001, 6, 2, 6, 0.001, 1000}) == doctest::Approx(3));
}

TEST_CASE("a memory ring hands out consecutive pieces, and never crosses its end") {
  std::array<std::byte, 10> memory;
  MemoryRing ring(memory);
  std::vector<ptrdiff_t> places;
  for (uint64_t bytes : {4, 4, 4, 6, 10})
    places.push_back(ring.next(bytes) - memory.data());
  CHECK(places == std::vector<ptrdiff_t>{0, 4, 0, 4, 0});
}

TEST_CASE("a ring can be limited to a part of the memory") {
  std::array<std::byte, 10> memory;
  MemoryRing ring(memory);
  ring.next(8);
  ring.keepTo(2, 5);
  std::vector<ptrdiff_t> places;
  for (uint64_t bytes : {2, 3, 1, 5})
    places.push_back(ring.next(bytes) - memory.data());
  CHECK(places == std::vector<ptrdiff_t>{2, 4, 2, 2});
  ring.keepTo(0, 10); // The former part is reused last.
  CHECK(ring.next(2) - memory.data() == 7);
  CHECK(ring.next(2) - memory.data() == 0);
}

static uint64_t ticks = 0;

TEST_CASE("the rate into reused memory is measured, except for slow disks") {
  TemporaryDirectory folder;
  // With the first clock a read of 2 MiB takes 1 ms, with the second 100 ms.
  for (auto [clock, points] : {std::pair<Clock, size_t>([] { return ticks += 1'000'000; }, 2),
                               {[] { return ticks += 100'000'000; }, 0}}) {
    ProbeRun run(
        clock, [] { return false; }, [](std::string_view, uint64_t, uint64_t) {});
    Result<ProbeFile> file = ProbeFile::create(run, folder.path(), 8 * kMiB, 8 * kMiB, 0);
    REQUIRE(file.isOk());
    const Result<ArtifactFile> opened = file->open();
    Result<HostRegion> memory = HostRegion::create(kProbeMemoryBytes);
    REQUIRE((opened.isOk() && memory.isOk()));
    Result<ProbeReader> reader = ProbeReader::create(*opened, *memory, IoBackend::kAuto);
    REQUIRE_MESSAGE(reader.isOk(), reader.status().message());
    ReuseProbe probe(run, *reader, file->bytes());
    REQUIRE(probe.measureRound().isOk());
    // Other measurements use all of the memory in between.
    std::memset(memory->data(), 0xab, memory->bytes());
    for (uint64_t bytes = 0; bytes < memory->bytes(); bytes += 2 * kMiB) {
      REQUIRE(reader->begin(0, 2 * kMiB).isOk());
      REQUIRE(reader->takeEnded(true).isOk());
    }
    std::vector<std::byte> untouched(4096, std::byte{0xab});
    for (uint64_t at = 0; at < memory->bytes(); at += 2 * kMiB)
      CHECK(std::memcmp(memory->data() + at, untouched.data(), untouched.size()) != 0);
    REQUIRE(probe.report().size() == points);
    for (size_t i = 0; i < points; ++i) {
      CHECK(probe.report()[i].bytes == (i == 0 ? 8 : 32) * kMiB);
      CHECK(probe.report()[i].factor.value == doctest::Approx(1));
    }
  }
}

TEST_CASE("a probe that the user stops ends as interrupted before its next step") {
  bool isStopped = false;
  std::string last;
  ProbeRun run(
      monotonicNs, [&] { return isStopped; },
      [&](std::string_view step, uint64_t, uint64_t) { last = step; });
  run.plan(100);
  CHECK(run.begin("one", 50).isOk());
  isStopped = true;
  CHECK(run.begin("two", 50).code() == StatusCode::kInterrupted);
  CHECK(last == "one");
}

TEST_CASE("a probe reports how much of its planned time has passed") {
  std::vector<uint64_t> reported;
  ProbeRun run(
      monotonicNs, [] { return false; },
      [&](std::string_view, uint64_t done, uint64_t total) {
        reported.push_back(done);
        CHECK(total == 100);
      });
  run.plan(100);
  for (int i = 0; i < 3; ++i)
    REQUIRE(run.begin("step", 60).isOk());
  CHECK(reported == std::vector<uint64_t>{0, 60, 100}); // Never more than the total.
}

TEST_CASE("the probe's file has no name while it is read, and can be read once its owner is gone") {
  TemporaryDirectory folder;
  ProbeRun run = quietRun();
  std::optional<ArtifactFile> opened;
  {
    Result<ProbeFile> file =
        ProbeFile::create(run, folder.path(), 8 * kMiB, 8 * kMiB, 1'000'000'000);
    REQUIRE_MESSAGE(file.isOk(), file.status().message());
    CHECK(file->bytes() == 8 * kMiB);
    CHECK(std::filesystem::is_empty(folder.path()));
    Result<ArtifactFile> readable = file->open();
    REQUIRE(readable.isOk());
    opened = std::move(*readable);
  }
  std::vector<std::byte> bytes(4096);
  REQUIRE(opened->read(4 * kMiB, bytes).isOk());
  // Random bytes: 16 of 4096 are expected to be 0.
  CHECK(std::count(bytes.begin(), bytes.end(), std::byte{0}) < 64);
}

TEST_CASE("a slow disk gets a smaller file, but not one below the least") {
  TemporaryDirectory folder;
  ProbeRun run = quietRun();
  Result<ProbeFile> file = ProbeFile::create(run, folder.path(), 8 * kMiB, 64 * kMiB, 0);
  REQUIRE(file.isOk());
  CHECK(file->bytes() == 8 * kMiB);
}

TEST_CASE("a folder that cannot be probed is refused, and named") {
  TemporaryDirectory folder;
  ProbeRun run = quietRun();
  const auto refusalOf = [&](const std::string &path) {
    const Result<ProbeFile> file = ProbeFile::create(run, path, 8 * kMiB, 8 * kMiB, 1);
    REQUIRE(!file.isOk());
    CHECK(file.status().code() == StatusCode::kInvalidInput);
    CHECK(contains(file.status().message(), path.c_str()));
    return file.status().message();
  };
  refusalOf(folder.path("missing"));
  const std::string plain = folder.path("file");
  std::fclose(std::fopen(plain.c_str(), "w"));
  CHECK(contains(refusalOf(plain), "has 0 B, expected a file of at least 8.00 MiB, or a folder"));
}

TEST_CASE("an existing file is probed whole and is not changed") {
  TemporaryDirectory folder;
  ProbeRun run = quietRun();
  const std::string path = folder.path("model");
  std::FILE *model = std::fopen(path.c_str(), "w");
  const std::vector<char> bytes(13 * kMiB, '!');
  REQUIRE(std::fwrite(bytes.data(), bytes.size(), 1, model) == 1);
  std::fclose(model);
  {
    Result<ProbeFile> file = ProbeFile::create(run, path, 8 * kMiB, 8 * kMiB, 1);
    REQUIRE(file.isOk());
    CHECK(file->bytes() == 12 * kMiB); // Whole pieces of 4 MiB.
    CHECK(file->open().isOk());
  }
  struct stat found;
  REQUIRE(::stat(path.c_str(), &found) == 0);
  CHECK(found.st_size == 13 * kMiB);
}

TEST_CASE("a file that is mostly holes is refused, since holes are not read from the disk") {
  TemporaryDirectory folder;
  ProbeRun run = quietRun();
  const std::string path = folder.path("model");
  std::fclose(std::fopen(path.c_str(), "w"));
  std::filesystem::resize_file(path, 13 * kMiB);
  const Result<ProbeFile> file = ProbeFile::create(run, path, 8 * kMiB, 8 * kMiB, 1);
  REQUIRE(!file.isOk());
  CHECK(file.status().code() == StatusCode::kInvalidInput);
  CHECK(contains(file.status().message(), "has holes, 0 B of its 13.0 MiB are on the disk"));
}

TEST_CASE("a disk without room is an error that names the free bytes") {
  TemporaryDirectory folder;
  ProbeRun run = quietRun();
  constexpr uint64_t kPebibyte = uint64_t(1) << 50;
  const Result<ProbeFile> file = ProbeFile::create(run, folder.path(), kPebibyte, kPebibyte, 1);
  REQUIRE(!file.isOk());
  CHECK(file.status().code() == StatusCode::kFailed);
  CHECK(contains(file.status().message(), "free on the disk: "));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a stopped probe leaves no file") {
  TemporaryDirectory folder;
  ProbeRun run(
      monotonicNs, [] { return true; }, [](std::string_view, uint64_t, uint64_t) {});
  const Result<ProbeFile> file = ProbeFile::create(run, folder.path(), 8 * kMiB, 8 * kMiB, 1);
  REQUIRE(!file.isOk());
  CHECK(file.status().code() == StatusCode::kInterrupted);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE(
    "points that a slow disk leaves no time for are derived, so that the tables are complete") {
  TemporaryDirectory folder;
  // With this clock every disk is slower than any card.
  ProbeRun run([] { return 20000 * monotonicNs(); }, [] { return false; },
               [](std::string_view, uint64_t, uint64_t) {});
  Result<ProbeFile> file = ProbeFile::create(run, folder.path(), 64 * kMiB, 64 * kMiB, 0);
  REQUIRE(file.isOk());
  const Result<ArtifactFile> opened = file->open();
  Result<HostRegion> memory = HostRegion::create(kProbeMemoryBytes);
  REQUIRE((opened.isOk() && memory.isOk()));
  Result<DiskProbe> probe = DiskProbe::create(run, *file, *opened, *memory);
  REQUIRE_MESSAGE(probe.isOk(), probe.status().message());
  for (uint32_t round = 0; round < kRounds; ++round)
    REQUIRE(probe->measureRound().isOk());
  const Result<DiskReport> disk = probe->report();
  REQUIRE_MESSAGE(disk.isOk(), disk.status().message());
  CHECK(disk->buffered.size() == 12);
  CHECK(disk->buffered.back().bytesPerSecond.origin == Origin::kDerived);
  if (disk->direct.empty()) {
    CHECK(disk->buffered.front().bytesPerSecond.origin == Origin::kMeasured);
  } else {
    CHECK(disk->direct.front().bytesPerSecond.origin == Origin::kMeasured);
    CHECK(disk->direct.back().bytesPerSecond.origin == Origin::kDerived);
    // Measured too, or limited to the sustained rate of direct reads.
    const Number &first = disk->buffered.front().bytesPerSecond;
    const ReadPoint &fastest = *std::ranges::max_element(
        disk->direct, {}, [](const ReadPoint &point) { return point.bytesPerSecond.value; });
    CHECK((first.origin == Origin::kMeasured || first.value == fastest.bytesPerSecond.value));
  }
  for (const ReadPoint &point : disk->buffered)
    CHECK(point.bytesPerSecond.value > 0);
}

TEST_CASE("a device file has four digits and an origin tag for each number") {
  const std::string yaml = toYaml(someReport());
  CHECK(contains(yaml, "  dispatch_ns: !measured 1500\n"));
  CHECK(contains(yaml, "{weights: int2+1, tokens: 32, threads: 1, weight_bytes_per_second: "
                       "!measured 1.235e+09, multiply_adds_per_second: !measured 4e+10}\n"));
  CHECK(contains(yaml, "{bytes: 4096, depth: 1, bytes_per_second: !derived 4e+07}\n"));
  CHECK(contains(yaml, "  backend: !measured threads\n"));
  CHECK(contains(yaml, "  fraction_while_reading: !measured 0.9\n"));
  CHECK(contains(yaml, "  fraction_while_computing: !measured 0.75\n"));
  CHECK(contains(yaml, "  wake_ns: !measured 6789\n"));
  CHECK(contains(yaml, "  reused_memory:\n    - {bytes: 8388608, factor: !measured 1.25}\n"));
  CHECK(contains(yaml, "  submit_ns_per_mib: !measured 1.234e+04\n"));
  CHECK(contains(yaml, "  memory_bytes_per_second: {one_thread: !measured 5e+09, all_threads: "
                       "!measured 6e+09}\n"));
}

TEST_CASE("the file omits ways of reading that were not measured") {
  CHECK(!contains(toYaml(someReport()), "buffered:"));
  CHECK(contains(toYaml(someReport()), "direct:"));
}

TEST_CASE("names and remarks become one line of plain text, whatever their bytes") {
  DeviceReport report = someReport();
  report.name = "a \"b\" \\ \n\xc3\xa9";
  report.remarks = {"first\nsecond: \xff"};
  const std::string yaml = toYaml(report);
  CHECK(contains(yaml, "name: \"a \\\"b\\\" \\\\ ???\"\n"));
  CHECK(yaml.rfind("# first?second: ?\ndevice_profile: 1\n", 0) == 0);
}
