// Selects the kernels for this processor.
#include "runtime/exec/Kernels.h"
#include "runtime/exec/cpu/CpuTables.h"

#include <string>

#if defined(MOERT_HAS_X86_KERNELS)
#include <cpuid.h>
#elif defined(MOERT_HAS_ARM_KERNELS)
#include <sys/auxv.h>
#endif

namespace moert {

const char *nameOf(Isa isa) {
  constexpr const char *kNames[] = {"reference", "avx2", "avx512", "neon", "dotprod", "i8mm"};
  return kNames[static_cast<uint8_t>(isa)];
}

std::span<const Isa> builtIsas() {
#if defined(MOERT_HAS_X86_KERNELS)
  static constexpr Isa kIsas[] = {Isa::kReference, Isa::kAvx2, Isa::kAvx512};
#elif defined(MOERT_HAS_ARM_KERNELS)
  static constexpr Isa kIsas[] = {Isa::kReference, Isa::kNeon, Isa::kDotprod, Isa::kI8mm};
#else
  static constexpr Isa kIsas[] = {Isa::kReference};
#endif
  return kIsas;
}

std::optional<Isa> parseIsa(std::string_view name) {
  for (Isa isa : builtIsas())
    if (name == nameOf(isa))
      return isa;
  return std::nullopt;
}

#if defined(MOERT_HAS_X86_KERNELS)
// Clang's builtin does not accept the name.
static bool hasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

// GCC's builtin also checks whether the system saves the wide registers.
static const KernelTable *tableOf(Isa isa) {
  switch (isa) {
  case Isa::kReference:
    return &referenceKernels();
#if defined(MOERT_HAS_X86_KERNELS)
  case Isa::kAvx2:
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && hasF16c())
      return &avx2Kernels();
    return nullptr;
  case Isa::kAvx512:
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni") && tableOf(Isa::kAvx2))
      return &avx512Kernels();
    return nullptr;
#elif defined(MOERT_HAS_ARM_KERNELS)
  case Isa::kNeon:
    return &neonKernels();
  case Isa::kDotprod:
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? &dotprodKernels() : nullptr;
  case Isa::kI8mm:
    return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0 ? &i8mmKernels() : nullptr;
#endif
  default: // Another architecture's.
    return nullptr;
  }
}

bool isSupported(Isa isa) {
  return tableOf(isa) != nullptr;
}

Result<const KernelTable *> kernelsFor(Isa isa) {
  if (const KernelTable *table = tableOf(isa))
    return table;
  std::string present;
  for (Isa candidate : builtIsas())
    if (isSupported(candidate))
      present += (present.empty() ? "" : ", ") + std::string(nameOf(candidate));
  return invalidInput("this processor lacks the instruction set ", nameOf(isa),
                      "; it can run: ", present);
}

const KernelTable &bestKernels() {
  const KernelTable *best = &referenceKernels();
  for (Isa isa : builtIsas())
    if (const KernelTable *table = tableOf(isa))
      best = table;
  return *best;
}

} // namespace moert
