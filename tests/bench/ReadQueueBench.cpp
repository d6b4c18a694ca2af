// How fast records come from a file, by backend, request size and scattering of pages. The numbers
// in runtime/io come from here.
//
//     read_queue_bench FILE [--repeat N]
//
// FILE is a large file on the disk in question, such as an artifact. Variants take turns in each
// round, so that whatever else the machine does falls on all alike; the median over the rounds and
// its ratio to the first variant are printed.
#include "runtime/base/Clock.h"
#include "runtime/base/HostMemory.h"
#include "runtime/io/ReadQueue.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace moert;

namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr uint64_t kRecordBytes = 4 * kMiB, kPageBytes = 64 * kKiB;
constexpr uint32_t kReadsAtOnce = 4, kReads = 100;

struct Variant {
  const char *name;
  IoBackend backend;
  uint32_t depth = 32;
  uint64_t requestBytes = 512 * kKiB;
  bool isRegistered = true;
  bool isScattered = false;
};

const Variant kVariants[] = {
    {"uring", IoBackend::kUring},
    {"uring, depth 4", IoBackend::kUring, 4},
    {"uring, 64 KiB requests", IoBackend::kUring, 32, 64 * kKiB},
    {"uring, 4 MiB requests", IoBackend::kUring, 32, 4 * kMiB},
    {"uring, not registered", IoBackend::kUring, 32, 512 * kKiB, false},
    {"uring, scattered pages", IoBackend::kUring, 32, 512 * kKiB, true, true},
    {"threads", IoBackend::kThreads},
    {"threads, depth 1", IoBackend::kThreads, 1},
    {"threads, scattered pages", IoBackend::kThreads, 32, 512 * kKiB, true, true},
};

std::vector<MemoryPiece> piecesOf(const Variant &variant, HostRegion &pool, uint64_t place) {
  std::vector<MemoryPiece> pieces;
  std::byte *start = pool.data() + place * 2 * kRecordBytes;
  uint64_t step = variant.isScattered ? 2 * kPageBytes : kPageBytes;
  for (uint64_t i = 0; i < kRecordBytes / kPageBytes; ++i)
    pieces.push_back({start + i * step, kPageBytes});
  return pieces;
}

/// MiB/s of one round.
Result<double> measure(const ArtifactFile &file, const Variant &variant, HostRegion &pool) {
  MemoryPiece region{pool.data(), pool.bytes()};
  ReadQueueOptions options;
  options.backend = variant.backend;
  options.depth = variant.depth;
  options.maxRequestBytes = variant.requestBytes;
  options.maxReads = kReadsAtOnce;
  if (variant.isRegistered)
    options.registeredRegions = {&region, 1};
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ReadQueue> queue, createReadQueue(file, options));
  std::mt19937_64 random(1);
  ReadCompletion completions[kReadsAtOnce];
  std::vector<uint64_t> freePlaces = {0, 1, 2, 3};
  uint64_t before = monotonicNs();
  for (uint32_t submitted = 0, done = 0; done < kReads;) {
    for (; submitted < kReads && !freePlaces.empty(); ++submitted, freePlaces.pop_back()) {
      uint64_t offset = random() % (file.bytes() / kRecordBytes) * kRecordBytes;
      MOERT_RETURN_IF_ERROR(
          queue->submit(freePlaces.back(), offset, piecesOf(variant, pool, freePlaces.back())));
    }
    MOERT_ASSIGN_OR_RETURN(size_t count, queue->poll(completions, true));
    for (size_t i = 0; i < count; ++i, ++done) {
      MOERT_RETURN_IF_ERROR(completions[i].status);
      freePlaces.push_back(completions[i].tag);
    }
  }
  double seconds = static_cast<double>(monotonicNs() - before) / 1e9;
  return static_cast<double>(kReads * kRecordBytes / kMiB) / seconds;
}

Status run(const std::string &path, int repeat) {
  MOERT_ASSIGN_OR_RETURN(ArtifactFile file, ArtifactFile::open(path));
  if (file.bytes() < kRecordBytes)
    return invalidInput(path, ": has ", file.bytes(), " bytes, expected at least ", kRecordBytes);
  MOERT_ASSIGN_OR_RETURN(HostRegion pool, HostRegion::create(kReadsAtOnce * 2 * kRecordBytes));
  std::vector<std::vector<double>> rates(std::size(kVariants));
  for (int round = 0; round < repeat; ++round)
    for (size_t i = 0; i < std::size(kVariants); ++i) {
      MOERT_ASSIGN_OR_RETURN(double rate, measure(file, kVariants[i], pool));
      rates[i].push_back(rate);
    }
  double first = 0;
  for (size_t i = 0; i < std::size(kVariants); ++i) {
    std::sort(rates[i].begin(), rates[i].end());
    double median = rates[i][rates[i].size() / 2];
    first = i == 0 ? median : first;
    std::printf("%-26s %6.0f MiB/s  %.2fx\n", kVariants[i].name, median, median / first);
  }
  return {};
}

} // namespace

int main(int argc, char **argv) {
  int repeat = argc == 4 && std::strcmp(argv[2], "--repeat") == 0 ? std::atoi(argv[3]) : 5;
  if ((argc != 2 && argc != 4) || repeat < 1) {
    std::fprintf(stderr, "usage: read_queue_bench FILE [--repeat N]\n");
    return 2;
  }
  Status status = run(argv[1], repeat);
  if (!status.isOk())
    std::fprintf(stderr, "read_queue_bench: %s\n", status.message().c_str());
  return exitCode(status);
}
