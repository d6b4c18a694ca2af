// The floating-point mode that every result is defined in (docs/numbers.md): round to nearest even,
// subnormals kept, no traps. A program that uses the runtime may have another one: libraries built
// with -ffast-math make the thread that loads them flush subnormals to zero, and threads inherit
// the mode of their creator.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace moert {

/// This thread computes in the mode of docs/numbers.md while the object lives. The destructor
/// restores the mode that the constructor found, with its sticky flags: a caller sees no exception
/// that is not its own. Every function that computes results for a caller begins with one, and
/// every thread of the runtime. Objects nest; costs some nanoseconds. The mode of the x87 unit does
/// not matter: no result depends on it.
class DefaultFloatMode {
public:
#if defined(__x86_64__)
  // MXCSR: all exceptions masked, rounding to nearest, neither flush-to-zero nor
  // denormals-are-zero.
  static constexpr uint32_t kDefault = 0x1f80;
  using Mode = uint32_t;
  static Mode current() {
    return _mm_getcsr();
  }
  static void set(const Mode &mode) {
    _mm_setcsr(mode);
    asm volatile("" ::: "memory"); // Nothing that reads memory is computed before.
  }
#elif defined(__aarch64__)
  // FPCR: rounding to nearest, no flush-to-zero, no default NaN, no traps.
  static constexpr uint64_t kDefault = 0;
  using Mode = uint64_t;
  static Mode current() {
    Mode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set(const Mode &mode) {
    asm volatile("msr fpcr, %0" ::"r"(mode) : "memory");
  }
#else
  static inline const std::fenv_t &kDefault = *FE_DFL_ENV;
  using Mode = std::fenv_t;
  static Mode current() {
    Mode mode;
    std::fegetenv(&mode);
    return mode;
  }
  static void set(const Mode &mode) {
    std::fesetenv(&mode);
  }
#endif

  DefaultFloatMode() : before(current()) {
    set(kDefault);
  }
  ~DefaultFloatMode() {
    set(before);
  }
  DefaultFloatMode(const DefaultFloatMode &) = delete;
  DefaultFloatMode &operator=(const DefaultFloatMode &) = delete;

private:
  const Mode before;
};

} // namespace moert
