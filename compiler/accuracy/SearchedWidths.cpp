#include "compiler/accuracy/SearchedWidths.h"

namespace moec {

std::vector<ExpertWidth> searchedWidths(const AccurateCompileRequest &request) {
  const uint32_t low = request.passes.lowCopyBits, down = request.passes.downBits;
  if (request.bits)
    return {ExpertWidth(*request.bits, down == 0 ? *request.bits : down)};
  if (request.method == QuantizeMethod::kGptq && low == 0)
    return {8, 6, 5, {4, 6}, 4, {3, 5}, 3, {2, 4}, 2};
  std::vector<ExpertWidth> widths;
  for (uint32_t bits : {8, 6, 5, 4, 3, 2})
    if (const bool isOneSlice = bits == 8 || bits == 4 || bits == 2;
        low == 0 || bits < low || isOneSlice)
      widths.push_back(bits);
  return widths;
}

} // namespace moec
