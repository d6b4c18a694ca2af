#include "compiler/accuracy/SearchedWidths.h"

namespace moec {

std::vector<ExpertWidth> searchedWidths(const AccurateCompileRequest &request) {
  const uint32_t down = request.passes.downBits;
  if (request.bits)
    return {ExpertWidth(*request.bits, down == 0 ? *request.bits : down)};
  if (request.method == QuantizeMethod::kGptq)
    return {8, 6, 5, {4, 6}, 4, {3, 5}, 3, {2, 4}, 2};
  return {8, 6, 5, 4, 3, 2};
}

} // namespace moec
