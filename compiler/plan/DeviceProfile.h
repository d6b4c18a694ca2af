// What a machine can do, as far as a plan needs to know: how long a read takes, how fast weights
// are multiplied, how much memory there is. Data alone; DeviceTimes.h makes times of it, and
// profiles/DeviceFile.h reads it from YAML (profiles/README.md describes every field).
#pragma once

#include "runtime/base/Origin.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

using moert::Origin;
using moert::worseOf;

struct Quantity {
  double value = 0;
  Origin origin = Origin::kAssumed;

  friend bool operator==(const Quantity &, const Quantity &) = default;
};

/// Reads into memory that was read into a short time ago. Where a host copies what a virtual disk
/// delivers, they are faster: its processor's caches still hold the lines that it writes.
struct ReusedMemory {
  uint64_t bytes = 0; // Read since the last read into the same place began, that one included.
  Quantity factor;    // On the rates of the table; above 0.
};

/// What was read into so many bytes of reads ago, or never, is as slow as it gets: what tables are
/// of.
constexpr uint64_t kLongUnusedBytes = uint64_t(128) << 20;

/// Reads of whole records, several of them under way at once, at places far apart, into memory that
/// was not read into for long.
/// Invariants: both axes ascend strictly and are not empty; bytesPerSecond has sizes x depths
/// elements, those of one size one after the other, each above 0; reused ascends strictly and
/// stays below kLongUnusedBytes.
struct ReadTable {
  std::vector<uint64_t> sizes;           // Bytes of a record.
  std::vector<uint32_t> depths;          // Records under way.
  std::vector<Quantity> bytesPerSecond;  // All of them together.
  std::vector<ReusedMemory> reused = {}; // Empty: all memory is alike.
};

/// The stored widths that can have rates: slices on top of each other are joined by a plus. All
/// kinds of blocks are "blocks": decoding them takes similar times.
constexpr std::array<std::string_view, 17> kProductWeights = {
    "int2",  "int2+1", "int2+2", "int2+2+1", "int2+2+2", "int2+2+4", "int4", "int8", "nl2",
    "nl2+1", "nl2+2",  "nl4",    "mxfp4",    "blocks",   "bf16",     "f16",  "f32"};

/// How fast matrices of one stored width are multiplied with rows of activations, from memory that
/// no processor cache holds.
struct ProductRate {
  std::string weights; // One of kProductWeights.
  uint32_t tokens = 0;
  uint32_t threads = 0;
  Quantity weightBytesPerSecond; // Stored bytes, scales included.
  Quantity multiplyAddsPerSecond;
};

/// Something that was measured with one thread and with all of them.
struct ThreadRates {
  Quantity oneThread;
  Quantity allThreads; // As many as there are cores.
};

/// After so long without reads a disk, or what a virtual one is made of, is as slow to begin again
/// as it gets: the time between the reads of one layer and the next.
constexpr uint64_t kDiskRestNs = 1'000'000;

struct DeviceProfile {
  std::string name;

  std::string isa;                  // A name that Kernels.h knows, "avx512" say.
  uint32_t cores = 0;               // That a process may use.
  Quantity dispatchNs;              // To hand one operation to all threads and wait for them.
  Quantity fractionWhileReading{1}; // Relative to the rates of products, while reads are in flight.

  Quantity totalMemoryBytes;
  Quantity availableMemoryBytes;    // What one process may take; a container's limit counts.
  ThreadRates memoryBytesPerSecond; // Streaming reads.
  // Keys and values, for each query head that reads them, from a processor's caches; and what it
  // takes in addition to bring them there, counted once.
  ThreadRates attentionBytesPerSecond, attentionMemoryBytesPerSecond;

  std::string ioBackend; // What --io auto takes: "uring", "threads", "buffered".
  bool hasRegisteredBuffers = false;
  ReadTable directReads;              // Past the page cache; empty where that is refused.
  ReadTable bufferedReads;            // Through the page cache, nothing of the file in it.
  Quantity fractionWhileComputing{1}; // Relative to the tables' rates, while all cores compute.
  Quantity submitNsPerMiB;            // The time of the thread that submits a read.
  Quantity wakeNs;                    // Added to the first read after kDiskRestNs without any.
  Quantity cachedBytesPerSecond;      // Buffered reads of what the page cache holds; one at a time.

  /// By weights, tokens and threads, each combination once; int8 and f32 are there, for one token
  /// and for several, with one thread and with `cores` of them.
  std::vector<ProductRate> products;
};

} // namespace moec
