#include "compiler/plan/DiskTimeline.h"

#include <cmath>
#include <doctest/doctest.h>

using namespace moec;

using Tags = std::vector<uint32_t>;

/// A byte in a nanosecond, however many reads there are.
static ReadTable serialReads() {
  return {{1000}, {1}, {{1e9, Origin::kMeasured}}};
}

/// One read of 1000 bytes takes 1000 ns; two of them side by side 1000 ns, four 2000 ns.
static ReadTable doubleReads() {
  return {{1000},
          {1, 2, 4},
          {{1e9, Origin::kMeasured}, {2e9, Origin::kMeasured}, {2e9, Origin::kMeasured}}};
}

TEST_CASE("a device that gains nothing by depth ends its reads one after the other") {
  ReadTable table = serialReads();
  ReadPaces paces(table);
  DiskTimeline disk(paces);
  Tags ended;
  disk.begin(7, paces.sizeOf(1000));
  disk.begin(8, paces.sizeOf(3000));
  CHECK(disk.nextEndNs() == doctest::Approx(1000));
  disk.advanceTo(1500, ended);
  CHECK(ended == Tags{7});
  CHECK(disk.nextEndNs() == doctest::Approx(4000));
  disk.advanceTo(3999, ended);
  CHECK(disk.underWay() == 1);
  disk.advanceTo(5000, ended);
  CHECK(ended == Tags{7, 8});
  CHECK(disk.busyNs() == doctest::Approx(4000));
}

TEST_CASE("a read may have a speed of its own, which is no other one's") {
  ReadTable table = serialReads();
  ReadPaces paces(table);
  DiskTimeline disk(paces);
  Tags ended;
  disk.begin(7, paces.sizeOf(1000), 2);
  disk.begin(8, paces.sizeOf(1000), 0.5);
  disk.begin(9, paces.sizeOf(1000));
  CHECK(disk.nextEndNs() == doctest::Approx(500));
  disk.advanceTo(501, ended);
  CHECK(ended == Tags{7});
  CHECK(disk.nextEndNs() == doctest::Approx(2500));
  disk.advanceTo(2501, ended);
  CHECK(disk.nextEndNs() == doctest::Approx(3500));
}

TEST_CASE("as many reads are served at a time as the device's rate needs") {
  ReadTable table = doubleReads();
  ReadPaces paces(table);
  uint32_t size = paces.sizeOf(1000);
  CHECK(paces.of(size, 1).served == 1);
  CHECK(paces.of(size, 4).served == 2);
  CHECK(paces.of(size, 4).allNs == doctest::Approx(2000));
  DiskTimeline disk(paces);
  Tags ended;
  for (uint32_t tag : {3, 1, 2, 4})
    disk.begin(tag, size);
  disk.advanceTo(1000, ended);
  CHECK(ended == Tags{3, 1});
  disk.advanceTo(2000, ended);
  CHECK(ended == Tags{3, 1, 2, 4});
}

TEST_CASE("more reads never end sooner than fewer, whatever was measured") {
  // Alone 2000 ns, two side by side 1000 ns, four 2000 ns.
  ReadTable table{{1000},
                  {1, 2, 4},
                  {{0.5e9, Origin::kMeasured}, {2e9, Origin::kMeasured}, {2e9, Origin::kMeasured}}};
  ReadPaces paces(table);
  uint32_t size = paces.sizeOf(1000);
  CHECK(paces.of(size, 1).allNs == doctest::Approx(std::sqrt(2000.0 * 1000)));
  CHECK(paces.of(size, 2).allNs == doctest::Approx(std::sqrt(2000.0 * 1000)));
  CHECK(paces.of(size, 4).allNs == doctest::Approx(2000));
  for (size_t count = 1; count < 8; ++count) {
    const double fewer = paces.of(size, count).allNs; // of() may move what it returned before.
    CHECK(fewer <= paces.of(size, count + 1).allNs * (1 + 1e-12));
  }
}

TEST_CASE("a read that begins later shares the device with those under way") {
  ReadTable table = doubleReads();
  ReadPaces paces(table);
  DiskTimeline disk(paces);
  Tags ended;
  disk.begin(0, paces.sizeOf(1000));
  disk.advanceTo(500, ended);
  disk.begin(1, paces.sizeOf(1000));
  // Side by side each goes on as fast as one alone.
  CHECK(disk.nextEndNs() == doctest::Approx(1000));
  disk.advanceTo(1000, ended);
  CHECK(disk.nextEndNs() == doctest::Approx(1500));
}

TEST_CASE("the time until all reads of a size have ended is the device's") {
  for (const ReadTable &table : {serialReads(), doubleReads()})
    for (uint32_t count = 1; count <= 4; ++count) {
      ReadPaces paces(table);
      DiskTimeline disk(paces);
      Tags ended;
      for (uint32_t tag = 0; tag < count; ++tag)
        disk.begin(tag, paces.sizeOf(1000));
      double last = 0;
      while (disk.underWay() > 0) {
        last = disk.nextEndNs();
        disk.advanceTo(last, ended);
      }
      // Three reads of a device that serves two: 1500 ns by its rate; the last one, alone at the
      // end, cannot use all of it.
      double rateNs = readNs(table, 1000, count).value;
      CHECK(last >= doctest::Approx(rateNs));
      CHECK(last <= doctest::Approx(rateNs + 1000));
      CHECK(ended.size() == count);
    }
}

TEST_CASE(
    "a disk that has a fraction of its rates takes as much longer, for as long as it has it") {
  ReadTable table = serialReads();
  ReadPaces paces(table);
  DiskTimeline disk(paces);
  Tags ended;
  disk.begin(7, paces.sizeOf(1000));
  CHECK(disk.nextEndNs(0.5) == doctest::Approx(2000));
  disk.advanceTo(1000, ended, 0.5);
  CHECK(ended.empty());
  CHECK(disk.nextEndNs() == doctest::Approx(1500)); // Half of it is read.
  disk.advanceTo(1500, ended);
  CHECK(ended == Tags{7});
  CHECK(disk.busyNs() == doctest::Approx(1500));
}

TEST_CASE("a disk wakes for the first read after a rest, and the longer the longer it has rested") {
  ReadTable table = serialReads();
  ReadPaces paces(table);
  DiskTimeline disk(paces, 600);
  Tags ended;
  disk.advanceTo(kDiskRestNs / 2, ended);
  disk.begin(7, paces.sizeOf(1000));
  CHECK(disk.nextEndNs() == doctest::Approx(kDiskRestNs / 2 + 300 + 1000));
  disk.advanceTo(kDiskRestNs / 2 + 200, ended);
  CHECK(disk.nextEndNs(0.5) == doctest::Approx(kDiskRestNs / 2 + 300 + 2000));
  disk.begin(8, paces.sizeOf(1000)); // The disk is awake.
  const double both = kDiskRestNs / 2 + 300 + 2000;
  disk.advanceTo(both, ended);
  CHECK(ended == Tags{7, 8});
  disk.advanceTo(both + 3.0 * kDiskRestNs, ended);
  disk.begin(9, paces.sizeOf(1000));
  CHECK(disk.nextEndNs() == doctest::Approx(both + 3.0 * kDiskRestNs + 600 + 1000));
  CHECK(disk.busyNs() == doctest::Approx(300 + 2000));
}

TEST_CASE("large reads come one after the other, whatever a device gains by several") {
  // Of 4 MiB, two side by side take as long as one.
  const uint64_t bytes = 4 << 20;
  ReadTable table{{bytes}, {1, 2}, {{1e9, Origin::kMeasured}, {2e9, Origin::kMeasured}}};
  ReadPaces paces(table);
  CHECK(paces.of(paces.sizeOf(bytes), 2).served == 1);
  CHECK(paces.of(paces.sizeOf(1 << 20), 2).served == 2);
}

TEST_CASE("a read that takes no time that a double tells apart ends when it is waited for") {
  ReadTable table{{1000}, {1}, {{1e15, Origin::kMeasured}}}; // A read takes 1e-3 ns.
  ReadPaces paces(table);
  DiskTimeline disk(paces);
  Tags ended;
  disk.advanceTo(1e14, ended); // Its last bit is 1/64 ns.
  disk.begin(7, paces.sizeOf(1000));
  disk.advanceTo(disk.nextEndNs(), ended);
  CHECK(ended == Tags{7});
}
