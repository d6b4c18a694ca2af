// The kernels of a device, by number: a launch names one, and its arguments are its bytes.
#pragma once

#include "runtime/exec/cuda/AttentionKernels.h"
#include "runtime/exec/cuda/ProductKernels.h"
#include "runtime/exec/cuda/RowKernels.h"

#include <type_traits>
#include <utility>

namespace moert::device {

template <typename... Kernels> struct KernelList {
  static constexpr uint32_t kCount = sizeof...(Kernels);
  static_assert(((std::is_trivially_copyable_v<Kernels> && sizeof(Kernels) <= kMostKernelBytes) &&
                 ...));

  template <typename Kernel> static constexpr uint32_t numberOf() {
    uint32_t number = 0;
    (void)((std::is_same_v<Kernel, Kernels> || (++number, false)) || ...);
    return number;
  }
};

using AllKernels = KernelList<EmbedRows, NormRows, QuantizeRows, QuantizedProducts, FloatProducts,
                              RowProducts, RotateRows, StoreKeysAndValues, AttendRows, ActivateRows,
                              AddRows, GateHeads, CopyRows, CombineRanks>;

} // namespace moert::device
