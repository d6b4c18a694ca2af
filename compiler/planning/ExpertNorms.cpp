#include "compiler/planning/ExpertNorms.h"

#include "runtime/base/ThreadPool.h"
#include "runtime/engine/Footprint.h"
#include "runtime/exec/Hadamard.h"
#include "runtime/exec/Kernels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>

using namespace moert;

namespace moec {

static double squaresOf(const WeightView &matrix, std::vector<float> &row) {
  double sum = 0;
  row.resize(matrix.shape.cols);
  for (uint32_t output = 0; output < matrix.shape.rows; ++output) {
    bestKernels().gatherRow(matrix, output, 1, row.data());
    for (float value : row)
      sum += double(value) * double(value);
  }
  // The Hadamard transform of a row has the squares of the row, but for its factor.
  const uint32_t block = matrix.format.hasHadamard ? hadamardBlockOf(matrix.shape.cols) : 1;
  const double factor = hadamardWeightFactor(block);
  return sum / (block * factor * factor);
}

static Result<double> normOf(const ByteSource &source, const ExpertRecord &record,
                             const ExpertTemplate &expert) {
  std::vector<std::byte> bytes(record.bytes);
  MOERT_RETURN_IF_ERROR(source.read(record.fileOffset, bytes));
  const std::byte *page = bytes.data();
  const PagedBytes whole = PagedBytes::contiguous(&page);
  std::vector<float> row;
  double squares = 0;
  for (WeightView matrix : expert.matrices) { // A gate that is absent has no rows.
    matrix.bytes = whole.from(matrix.bytes.offset);
    squares += squaresOf(matrix, row);
  }
  return std::sqrt(squares);
}

static std::vector<uint32_t> relativeTo(double largest, const std::vector<double> &norms) {
  std::vector<uint32_t> relative;
  relative.reserve(norms.size());
  for (double norm : norms)
    relative.push_back(largest > 0
                           ? static_cast<uint32_t>(std::lround(norm / largest * kFixedPointOne))
                           : kFixedPointOne);
  return relative;
}

Result<std::vector<std::vector<uint32_t>>> expertNormsOf(const ByteSource &source,
                                                         const Artifact &artifact, unsigned threads,
                                                         const Session &session) {
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                         ThreadPool::create(threads, ThreadPool::Shortage::kTakesFewer));
  MOERT_ASSIGN_OR_RETURN(const std::vector<MoeLayerTables> layers, makeLayerTables(artifact));
  if (session.progress)
    session.progress->beginCounting("measuring the norms of experts", "layers", 1, layers.size(),
                                    0);
  std::vector<std::vector<uint32_t>> all;
  for (const MoeLayerTables &layer : layers) {
    if (session.stop && session.stop->load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted, "interrupted");
    std::vector<double> norms(layer.records.size());
    std::vector<Status> statuses(norms.size());
    pool->run(norms.size(), 1, [&](uint64_t begin, uint64_t end, uint32_t) {
      for (uint64_t expert = begin; expert < end; ++expert) {
        const uint16_t slices = layer.planned[expert];
        Result<double> norm = normOf(source, layer.records[expert],
                                     layer.templateOf(static_cast<uint32_t>(expert), slices));
        statuses[expert] = norm.status();
        norms[expert] = norm.isOk() ? *norm : 0;
      }
    });
    for (Status &status : statuses)
      MOERT_RETURN_IF_ERROR(std::move(status));
    all.push_back(relativeTo(*std::max_element(norms.begin(), norms.end()), norms));
    if (session.progress)
      session.progress->advanceTo(all.size());
  }
  if (session.progress)
    session.progress->end();
  return all;
}

} // namespace moec
