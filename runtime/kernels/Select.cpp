// Which version of the kernels runs here.
#include "runtime/kernels/Kernels.h"

#include <string>

namespace moert {

static const char *nameOf(Isa isa) {
  constexpr const char *kNames[] = {"reference", "avx2", "avx512"};
  return kNames[static_cast<uint8_t>(isa)];
}

static const KernelTable *tableOf(Isa isa) {
  switch (isa) {
  case Isa::kReference:
    return &referenceKernels();
  case Isa::kAvx2:
  case Isa::kAvx512:
    return nullptr;
  }
  return nullptr;
}

bool isSupported(Isa isa) {
  return tableOf(isa) != nullptr;
}

Result<const KernelTable *> kernelsFor(Isa isa) {
  if (const KernelTable *table = tableOf(isa))
    return table;
  std::string present;
  for (Isa candidate : {Isa::kReference, Isa::kAvx2, Isa::kAvx512})
    if (isSupported(candidate))
      present += (present.empty() ? "" : ", ") + std::string(nameOf(candidate));
  return invalidInput("this processor lacks the instruction set ", nameOf(isa),
                      "; it can run: ", present);
}

const KernelTable &bestKernels() {
  for (Isa candidate : {Isa::kAvx512, Isa::kAvx2})
    if (const KernelTable *table = tableOf(candidate))
      return *table;
  return referenceKernels();
}

} // namespace moert
