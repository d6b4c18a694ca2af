#include "tests/bench/MachineLimits.h"

#include "tools/moert/probe/MemoryRead.h"

#include <algorithm>
#include <ctime>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moert::bench {

static double threadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double secondsOf(uint32_t threads, const std::function<void(uint32_t)> &work) {
  std::vector<double> seconds(threads);
  std::vector<std::thread> workers;
  for (uint32_t t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      double begin = threadSeconds();
      work(t);
      seconds[t] = threadSeconds() - begin;
    });
  for (std::thread &worker : workers)
    worker.join();
  return *std::max_element(seconds.begin(), seconds.end());
}

double readRate(const std::byte *memory, uint64_t bytes, uint32_t threads) {
  const uint64_t part = bytes / threads;
  double seconds = secondsOf(threads, [&](uint32_t thread) {
    probe::readThrough({memory + part * thread, part});
  });
  return static_cast<double>(part * threads) / seconds;
}

// Chains of additions that are under way at once: more than the latency of any instruction below.
static constexpr int kChains = 12;
static constexpr uint64_t kTurns = 1 << 20;

#if defined(__x86_64__)

// A turn is `kChains` multiply-adds. The empty statements keep chains apart which the compiler
// would find to be equal.
__attribute__((target("avx512f,avx512vnni"))) static void spinBytes512() {
  __m512i sums[kChains] = {}, a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(2);
  for (uint64_t i = 0; i < kTurns; ++i)
#pragma GCC unroll 12
    for (__m512i &sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, a, b);
      asm volatile("" : "+v"(sum));
    }
}

__attribute__((target("avx512f"))) static void spinFloats512() {
  __m512 sums[kChains] = {}, a = _mm512_set1_ps(3), b = _mm512_set1_ps(2);
  for (uint64_t i = 0; i < kTurns; ++i)
#pragma GCC unroll 12
    for (__m512 &sum : sums) {
      sum = _mm512_fmadd_ps(a, b, sum);
      asm volatile("" : "+v"(sum));
    }
}

// Products of pairs, added up in 16 bits: what codes of up to 4 bits need.
__attribute__((target("avx2"))) static void spinBytes256() {
  __m256i sums[kChains] = {}, a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(2);
  for (uint64_t i = 0; i < kTurns; ++i)
#pragma GCC unroll 12
    for (__m256i &sum : sums) {
      asm volatile("" : "+x"(a));
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b));
      asm volatile("" : "+x"(sum));
    }
}

__attribute__((target("avx2,fma"))) static void spinFloats256() {
  __m256 sums[kChains] = {}, a = _mm256_set1_ps(3), b = _mm256_set1_ps(2);
  for (uint64_t i = 0; i < kTurns; ++i)
#pragma GCC unroll 12
    for (__m256 &sum : sums) {
      sum = _mm256_fmadd_ps(a, b, sum);
      asm volatile("" : "+x"(sum));
    }
}

#endif

namespace {

struct Peak {
  void (*spin)();
  uint32_t operations; // Multiply-adds of one instruction.
};

} // namespace

static Peak peakOf(Isa isa, bool isInteger) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512)
    return isInteger ? Peak{spinBytes512, 64} : Peak{spinFloats512, 16};
  if (isa == Isa::kAvx2)
    return isInteger ? Peak{spinBytes256, 32} : Peak{spinFloats256, 8};
#endif
  static_cast<void>(isa);
  static_cast<void>(isInteger);
  return {nullptr, 0};
}

double peakRate(Isa isa, bool isInteger, uint32_t threads) {
  Peak peak = peakOf(isa, isInteger);
  if (!peak.spin)
    return 0;
  double seconds = secondsOf(threads, [&](uint32_t) { peak.spin(); });
  return static_cast<double>(kTurns * kChains * peak.operations * threads) / seconds;
}

} // namespace moert::bench
