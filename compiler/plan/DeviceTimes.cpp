#include "compiler/plan/DeviceTimes.h"

#include "runtime/base/DeterministicMath.h"

#include <algorithm>
#include <array>
#include <cassert>

using namespace moert;

namespace moec {

const ReadTable &plannedReads(const DeviceProfile &device) {
  return device.ioBackend == "buffered" ? device.bufferedReads : device.directReads;
}

namespace {

/// Where a value lies between two neighbours of an axis, by logarithm; outside, at its end.
struct Place {
  size_t below = 0, above = 0;
  double fraction = 0; // 0 at `below`, 1 at `above`.
};

template <typename Axis> Place placeIn(const std::vector<Axis> &axis, double value) {
  if (value <= static_cast<double>(axis.front()))
    return {};
  if (value >= static_cast<double>(axis.back()))
    return {axis.size() - 1, axis.size() - 1, 0};
  size_t above = 1;
  while (static_cast<double>(axis[above]) < value)
    ++above;
  if (static_cast<double>(axis[above]) == value)
    return {above, above, 0};
  const double low = deterministicLog(static_cast<double>(axis[above - 1]));
  const double high = deterministicLog(static_cast<double>(axis[above]));
  return {above - 1, above, (deterministicLog(value) - low) / (high - low)};
}

/// Time of one read at a measured size and depth, by Little's law: at the best rate of that size
/// and of smaller ones.
Quantity cellNs(const ReadTable &reads, size_t size, size_t depth) {
  auto rateAt = [&](size_t index) -> const Quantity & {
    return reads.bytesPerSecond[index * reads.depths.size() + depth];
  };
  Quantity rate = rateAt(size);
  for (size_t smaller = 0; smaller < size; ++smaller)
    if (rateAt(smaller).value > rate.value)
      rate = {rateAt(smaller).value, worseOf(rateAt(smaller).origin, Origin::kDerived)};
  return {1e9 * static_cast<double>(reads.sizes[size]) * reads.depths[depth] / rate.value,
          rate.origin};
}

/// Between two times, geometrically.
Quantity between(const Quantity &low, const Quantity &high, double fraction) {
  if (fraction == 0)
    return low;
  return {deterministicExp((1 - fraction) * deterministicLog(low.value) +
                           fraction * deterministicLog(high.value)),
          worseOf(worseOf(low.origin, high.origin), Origin::kDerived)};
}

Quantity scaled(Quantity time, double factor) {
  if (factor != 1) {
    time.value *= factor;
    time.origin = worseOf(time.origin, Origin::kDerived);
  }
  return time;
}

/// A rate with some of the cores: measured with one and with all.
Quantity withThreads(const Quantity &one, const Quantity &all, uint32_t threads, uint32_t cores) {
  if (threads <= 1 || cores <= 1)
    return one;
  if (threads >= cores)
    return all;
  const double fraction = static_cast<double>(threads - 1) / (cores - 1);
  return {one.value + fraction * (all.value - one.value),
          worseOf(worseOf(one.origin, all.origin), Origin::kDerived)};
}

} // namespace

Quantity readNs(const ReadTable &reads, uint64_t bytes, double depth) {
  assert(!reads.sizes.empty() && !reads.depths.empty() && depth >= 1);
  const Place size = placeIn(reads.sizes, static_cast<double>(bytes));
  const Place queue = placeIn(reads.depths, depth);
  const auto atSize = [&](size_t index) {
    return between(cellNs(reads, index, queue.below), cellNs(reads, index, queue.above),
                   queue.fraction);
  };
  Quantity time = between(atSize(size.below), atSize(size.above), size.fraction);
  const double largest = static_cast<double>(reads.sizes.back());
  const double deepest = static_cast<double>(reads.depths.back());
  time = scaled(time, std::max(1.0, static_cast<double>(bytes) / largest));
  return scaled(time, std::max(1.0, depth / deepest));
}

static double logOf(uint64_t bytes) {
  return deterministicLog(static_cast<double>(bytes));
}

ReusedFactors::ReusedFactors(const ReadTable &reads) {
  if (reads.reused.empty())
    return;
  auto add = [this](uint64_t bytes, double factor) {
    const Point *before = points.empty() ? nullptr : &points.back();
    const double log = logOf(bytes);
    points.push_back(
        {bytes, log, factor, before ? (factor - before->factor) / (log - before->logBytes) : 0});
  };
  for (const ReusedMemory &reused : reads.reused)
    add(reused.bytes, reused.factor.value);
  add(kLongUnusedBytes, 1);
}

double ReusedFactors::of(uint64_t bytes) const {
  if (points.empty() || bytes >= kLongUnusedBytes)
    return 1;
  if (bytes <= points.front().bytes)
    return points.front().factor;
  size_t end = 1;
  while (points[end].bytes < bytes)
    ++end;
  return points[end].factor - points[end].slope * (points[end].logBytes - logOf(bytes));
}

namespace {

/// The rates of one kind of weights with some threads, by tokens ascending.
struct TokenRate {
  uint32_t tokens;
  Quantity multiplyAddsPerSecond;
};

std::vector<TokenRate> ratesOf(const DeviceProfile &device, std::string_view weights,
                               uint32_t threads) {
  std::vector<TokenRate> rates;
  for (const ProductRate &one : device.products) {
    if (one.weights != weights || one.threads != 1)
      continue;
    Quantity all = one.multiplyAddsPerSecond;
    for (const ProductRate &other : device.products)
      if (other.weights == weights && other.tokens == one.tokens && other.threads == device.cores)
        all = other.multiplyAddsPerSecond;
    rates.push_back(
        {one.tokens, withThreads(one.multiplyAddsPerSecond, all, threads, device.cores)});
  }
  std::sort(rates.begin(), rates.end(),
            [](const TokenRate &a, const TokenRate &b) { return a.tokens < b.tokens; });
  return rates;
}

Quantity timeOf(const TokenRate &rate, uint64_t weights) {
  return {1e9 * static_cast<double>(weights) * rate.tokens / rate.multiplyAddsPerSecond.value,
          rate.multiplyAddsPerSecond.origin};
}

Quantity timeFor(const std::vector<TokenRate> &rates, uint64_t weights, uint32_t tokens) {
  size_t above = 0;
  while (above + 1 < rates.size() && rates[above].tokens < tokens)
    ++above;
  const Quantity high = timeOf(rates[above], weights);
  if (above == 0 || tokens >= rates[above].tokens)
    return scaled(high, static_cast<double>(tokens) / rates[above].tokens);
  const Quantity low = timeOf(rates[above - 1], weights);
  const double fraction = static_cast<double>(tokens - rates[above - 1].tokens) /
                          (rates[above].tokens - rates[above - 1].tokens);
  return {low.value + fraction * (high.value - low.value),
          worseOf(worseOf(low.origin, high.origin), Origin::kDerived)};
}

/// What weights without rates of their own are taken for: the next wider ones.
struct StandIns {
  std::string_view weights;
  std::array<std::string_view, 3> widening; // Ends with one that every profile has.
};
constexpr StandIns kStandIns[] = {{"int2", {"int4", "int8", "int8"}},
                                  {"int2+1", {"int2+2", "int4", "int8"}},
                                  {"int2+2", {"int4", "int8", "int8"}},
                                  {"int2+2+1", {"int2+2+2", "int2+2+4", "int8"}},
                                  {"int2+2+2", {"int2+2+4", "int8", "int8"}},
                                  {"int2+2+4", {"int8", "int8", "int8"}},
                                  {"int4", {"int2+2", "int8", "int8"}},
                                  {"nl2", {"int2", "int4", "int8"}},
                                  {"nl2+1", {"int2+1", "int2+2", "int8"}},
                                  {"nl2+2", {"int2+2", "int4", "int8"}},
                                  {"nl4", {"int4", "int2+2", "int8"}},
                                  {"mxfp4", {"bf16", "f16", "f32"}},
                                  {"blocks", {"mxfp4", "bf16", "f32"}},
                                  {"bf16", {"f16", "f32", "f32"}},
                                  {"f16", {"bf16", "f32", "f32"}}};

std::vector<TokenRate> standInRates(const DeviceProfile &device, const Product &product) {
  for (const StandIns &entry : kStandIns)
    if (entry.weights == product.weightsName)
      for (std::string_view wider : entry.widening) {
        std::vector<TokenRate> rates = ratesOf(device, wider, product.threads);
        if (!rates.empty())
          return rates;
      }
  return {};
}

} // namespace

Quantity productNs(const DeviceProfile &device, const Product &product) {
  std::vector<TokenRate> rates = ratesOf(device, product.weightsName, product.threads);
  if (!rates.empty())
    return timeFor(rates, product.weights, product.tokens);
  rates = standInRates(device, product);
  assert(!rates.empty() && "weights are of kProductWeights; profiles have rates of int8 and f32");
  Quantity time = timeFor(rates, product.weights, product.tokens);
  time.origin = worseOf(time.origin, Origin::kDerived);
  return time;
}

Quantity memoryBytesPerSecond(const DeviceProfile &device, uint32_t threads) {
  const ThreadRates &rates = device.memoryBytesPerSecond;
  return withThreads(rates.oneThread, rates.allThreads, threads, device.cores);
}

Quantity attentionNs(const DeviceProfile &device, const Attention &attention) {
  Quantity sum{0, Origin::kMeasured};
  auto add = [&](uint64_t bytes, const ThreadRates &rates) {
    const Quantity rate =
        withThreads(rates.oneThread, rates.allThreads, attention.threads, device.cores);
    sum.value += 1e9 * static_cast<double>(bytes) / rate.value;
    sum.origin = worseOf(sum.origin, rate.origin);
  };
  add(attention.headBytes, device.attentionBytesPerSecond);
  add(attention.memoryBytes, device.attentionMemoryBytesPerSecond);
  return sum;
}

} // namespace moec
