// Times made of a device profile's rates: of a read, a product, an attention. Between what was
// measured they interpolate, beyond it they go on as the last rates do; each time carries
// whether it was measured.
#pragma once

#include "compiler/plan/DeviceProfile.h"

namespace moec {

/// How long one read of `bytes` takes while `depth` such reads, this one included, are under way
/// all the time. A read takes no longer than smaller ones, one after the other, that make it up:
/// where a disk is held to a rate, a few large reads see the waits for the ones before and seem
/// many times slower. Interpolated between sizes and depths as a straight line of logarithms; a
/// read that is smaller than any measured one takes as long as that, a larger one proportionally
/// longer, and more reads than were measured share the disk's rate. The table is not empty; depth
/// is at least 1.
Quantity readNs(const ReadTable &reads, uint64_t bytes, double depth);

/// The factor on a table's rates for a read into memory that was read into some bytes of reads
/// ago: a straight line over the logarithm of bytes from one point of ReadTable::reused to the
/// next, and from the last one to 1. Keeps what it needs, since a replay asks millions of times.
class ReusedFactors {
public:
  explicit ReusedFactors(const ReadTable &reads);
  bool isAlike() const { return points.empty(); }
  double of(uint64_t bytes) const;

private:
  struct Point {
    uint64_t bytes;
    double logBytes, factor;
    double slope; // Factor per logBytes between the point before and this one.
  };
  std::vector<Point> points; // kLongUnusedBytes behind those of the table; none: always 1.
};

/// The table that --io auto reads by.
const ReadTable &plannedReads(const DeviceProfile &device);

/// What is multiplied: `tokens` rows of activations with a matrix of `weights` elements.
struct Product {
  std::string_view weightsName; // One of kProductWeights.
  uint64_t weights = 0;
  uint32_t tokens = 1;
  uint32_t threads = 1;
};

/// How long it takes once all threads have begun (DeviceProfile::dispatchNs comes on top). Between
/// measured numbers of tokens the time grows evenly, beyond them in proportion; between one thread
/// and all of them the rate does. Weights without rates of their own take those of the next wider
/// ones.
Quantity productNs(const DeviceProfile &device, const Product &product);

/// What so many threads read of memory together.
Quantity memoryBytesPerSecond(const DeviceProfile &device, uint32_t threads);

/// What one token's attention looks back at: keys and values, which come from memory once and are
/// then read by each of the query heads that share them.
struct Attention {
  uint64_t headBytes = 0;   // Counted for each query head.
  uint64_t memoryBytes = 0; // Counted once.
  uint32_t threads = 1;
};
Quantity attentionNs(const DeviceProfile &device, const Attention &attention);

} // namespace moec
