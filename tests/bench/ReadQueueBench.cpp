// How fast records are read from a file, by backend, request size, scattering of pages, target
// memory and concurrent load. The numbers in runtime/io were measured with it.
//
//     read_queue_bench FILE [--repeat N] [--record BYTES]
//
// FILE is a large file on the disk in question, such as an artifact; a record has 4 MiB unless said
// otherwise (whole pages of 4 KiB, up to 8 MiB). Variants take turns in each round, so that
// whatever else the machine does falls on all alike; the median over the rounds and its ratio to
// the first variant are printed. The last ones read one record at a time: into the same memory
// again and again, as fio with a depth of 1 does; into a pool in turn, as an expert cache does; and
// that while one or two threads stream memory, as kernels do.
#include "runtime/base/Clock.h"
#include "runtime/base/HostMemory.h"
#include "runtime/io/ReadQueue.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace moert;

namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
constexpr uint64_t kPageBytes = 64 * kKiB, kMostRecordBytes = 8 * kMiB;
/// Bytes of a place in the pool: room for a record of scattered pages.
constexpr uint64_t kPlaceBytes = 2 * kMostRecordBytes;
constexpr uint32_t kPlaces = 32, kReadsAtOnce = 4, kReads = 100;
constexpr uint64_t kStreamedBytes = 128 * kMiB; // By each thread.

struct Variant {
  const char *name;
  IoBackend backend;
  uint32_t depth = 32;
  uint64_t requestBytes = 512 * kKiB;
  bool isRegistered = true;
  bool isScattered = false;
  uint32_t readsAtOnce = kReadsAtOnce;
  uint32_t places = kReadsAtOnce; // Places of the pool that are used in turn.
  uint32_t streams = 0;           // Threads that stream memory meanwhile.
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
    {"uring, 1 read", IoBackend::kUring, 32, 512 * kKiB, true, false, 1, 1},
    {"uring, 1 read, pool", IoBackend::kUring, 32, 512 * kKiB, true, false, 1, kPlaces},
    {"uring, 1, pool, 1 streams", IoBackend::kUring, 32, 512 * kKiB, true, false, 1, kPlaces, 1},
    {"uring, 1, pool, 2 stream", IoBackend::kUring, 32, 512 * kKiB, true, false, 1, kPlaces, 2},
};

struct Options {
  std::string path;
  int repeat = 5;
  uint64_t recordBytes = 4 * kMiB;
};

/// Threads that read memory of their own from end to end until they are stopped.
class Streams {
public:
  Streams(HostRegion &memory, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
      threads.emplace_back([this, from = memory.data() + i * kStreamedBytes] {
        while (!isStopped)
          for (uint64_t at = 0; at < kStreamedBytes && !isStopped; at += kPageBytes)
            for (uint64_t line = 0; line < kPageBytes; line += 64)
              asm volatile("" : : "r"(from[at + line]));
      });
  }
  ~Streams() {
    isStopped = true;
    for (std::thread &thread : threads)
      thread.join();
  }
  Streams(const Streams &) = delete;

private:
  std::atomic<bool> isStopped{false};
  std::vector<std::thread> threads;
};

std::vector<MemoryPiece> piecesOf(const Variant &variant, uint64_t recordBytes, HostRegion &pool,
                                  uint64_t place) {
  std::vector<MemoryPiece> pieces;
  std::byte *start = pool.data() + place * kPlaceBytes;
  uint64_t step = variant.isScattered ? 2 * kPageBytes : kPageBytes;
  for (uint64_t left = recordBytes; left > 0; left -= pieces.back().bytes)
    pieces.push_back({start + pieces.size() * step, std::min(left, kPageBytes)});
  return pieces;
}

/// MiB/s of one round.
Result<double> measure(const ArtifactFile &file, const Variant &variant, uint64_t recordBytes,
                       HostRegion &pool, HostRegion &streamed) {
  MemoryPiece region{pool.data(), pool.bytes()};
  ReadQueueOptions options;
  options.backend = variant.backend;
  options.depth = variant.depth;
  options.maxRequestBytes = variant.requestBytes;
  options.maxReads = variant.readsAtOnce;
  options.maxPiecesPerRead = kMostRecordBytes / kPageBytes;
  if (variant.isRegistered)
    options.registeredRegions = {&region, 1};
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ReadQueue> queue, createReadQueue(file, options));
  const Streams streams(streamed, variant.streams);
  std::mt19937_64 random(1);
  ReadCompletion completions[kReadsAtOnce];
  std::deque<uint64_t> freePlaces;
  for (uint64_t place = 0; place < variant.places; ++place)
    freePlaces.push_back(place);
  uint64_t before = monotonicNs();
  for (uint32_t submitted = 0, done = 0; done < kReads;) {
    for (; submitted < kReads && submitted - done < variant.readsAtOnce; ++submitted) {
      const uint64_t offset = random() % (file.bytes() / recordBytes) * recordBytes;
      MOERT_RETURN_IF_ERROR(queue->submit(
          freePlaces.front(), offset, piecesOf(variant, recordBytes, pool, freePlaces.front())));
      freePlaces.pop_front();
    }
    MOERT_ASSIGN_OR_RETURN(size_t count, queue->poll(completions, true));
    for (size_t i = 0; i < count; ++i, ++done) {
      MOERT_RETURN_IF_ERROR(completions[i].status);
      freePlaces.push_back(completions[i].tag);
    }
  }
  double seconds = static_cast<double>(monotonicNs() - before) / 1e9;
  return static_cast<double>(kReads * recordBytes) / static_cast<double>(kMiB) / seconds;
}

Status run(const Options &wished) {
  MOERT_ASSIGN_OR_RETURN(ArtifactFile file, ArtifactFile::open(wished.path));
  if (file.bytes() < wished.recordBytes)
    return invalidInput(wished.path, ": has ", file.bytes(), " bytes, expected at least ",
                        wished.recordBytes);
  MOERT_ASSIGN_OR_RETURN(HostRegion pool, HostRegion::create(kPlaces * kPlaceBytes));
  MOERT_ASSIGN_OR_RETURN(HostRegion streamed, HostRegion::create(2 * kStreamedBytes));
  for (HostRegion *memory : {&pool, &streamed}) // So that it is there.
    std::memset(memory->data(), 1, memory->bytes());
  std::vector<std::vector<double>> rates(std::size(kVariants));
  for (int round = 0; round < wished.repeat; ++round)
    for (size_t i = 0; i < std::size(kVariants); ++i) {
      MOERT_ASSIGN_OR_RETURN(double rate,
                             measure(file, kVariants[i], wished.recordBytes, pool, streamed));
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

bool parse(int argc, char **argv, Options &options) {
  if (argc < 2 || argc % 2 != 0)
    return false;
  options.path = argv[1];
  for (int i = 2; i < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--repeat")
      options.repeat = std::atoi(argv[i + 1]);
    else if (flag == "--record")
      options.recordBytes = std::strtoull(argv[i + 1], nullptr, 10);
    else
      return false;
  }
  return options.repeat > 0 && options.recordBytes > 0 && options.recordBytes % 4096 == 0 &&
         options.recordBytes <= kMostRecordBytes;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: read_queue_bench FILE [--repeat N] [--record BYTES]\n");
    return 2;
  }
  Status status = run(options);
  if (!status.isOk())
    std::fprintf(stderr, "read_queue_bench: %s\n", status.message().c_str());
  return exitCode(status);
}
