#include "compiler/import/TensorValues.h"

#include "compiler/import/TensorCheck.h"
#include "compiler/plan/ForEach.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace moec {

using moert::Result;
using moert::Status;

/// Large enough to make system calls negligible, small enough for any machine.
static constexpr uint64_t kPieceBytes = 1 << 20;
/// A trained tensor has a nonzero byte among these.
static constexpr uint64_t kFirstBytes = 4096;
/// Concurrent readers, since the disk serves many small reads in the time of one.
static constexpr uint32_t kReaders = 16;

static bool isZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

Result<bool> areEqualMatrices(const Checkpoint &checkpoint, const WeightSource &a,
                              const WeightSource &b) {
  const std::vector<uint64_t> shape = {a.rows, a.cols};
  for (const WeightSource *source : {&a, &b}) {
    if (!checkpoint.has(source->tensor))
      return false;
    MOERT_ASSIGN_OR_RETURN(const WeightTensor weight, checkpoint.weight(source->tensor));
    if (weight.shape != shape)
      return false;
  }
  const auto rowsAtOnce =
      static_cast<uint32_t>(std::max<uint64_t>(1, kPieceBytes / sizeof(float) / a.cols));
  std::vector<float> left(size_t{rowsAtOnce} * a.cols), right(left.size());
  for (uint32_t row = 0; row < a.rows; row += rowsAtOnce) {
    const uint32_t count = std::min(rowsAtOnce, a.rows - row);
    const auto part = [&](std::vector<float> &values) {
      return std::span(values).first(size_t{count} * a.cols);
    };
    MOERT_RETURN_IF_ERROR(checkpoint.readRows(a, row, count, part(left)));
    MOERT_RETURN_IF_ERROR(checkpoint.readRows(b, row, count, part(right)));
    if (std::memcmp(left.data(), right.data(), part(left).size_bytes()) != 0)
      return false;
  }
  return true;
}

Result<std::vector<int64_t>> readIntegers(const Checkpoint &checkpoint, std::string_view name) {
  MOERT_ASSIGN_OR_RETURN(const WeightTensor weight, checkpoint.weight(name));
  const TensorLocation &location = weight.location;
  if (weight.type != StoredType::kI64)
    return moert::invalidInput(checkpoint.shardPath(location.shard), ": tensor ", name,
                               ": found another dtype, expected I64");
  std::vector<int64_t> values((location.tensor->end - location.tensor->begin) / sizeof(int64_t));
  MOERT_RETURN_IF_ERROR(
      checkpoint.readBytes(location, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

Result<bool> isAllZero(const Checkpoint &checkpoint, const std::string &name) {
  MOERT_ASSIGN_OR_RETURN(const WeightTensor weight, checkpoint.weight(name));
  const TensorLocation &location = weight.location;
  const uint64_t bytes = location.tensor->end - location.tensor->begin;
  std::vector<std::byte> piece(std::min(kFirstBytes, bytes));
  for (uint64_t done = 0; done < bytes; done += piece.size()) {
    if (done != 0)
      piece.resize(std::min(kPieceBytes, bytes - done));
    MOERT_RETURN_IF_ERROR(checkpoint.readBytes(location, done, piece));
    if (!isZero(piece))
      return false;
  }
  return true;
}

Result<std::vector<std::string>> allZeroTensors(const Checkpoint &checkpoint,
                                                const ModelDescription &description) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  forEachWeight(description, [&](const WeightSource &source) {
    if (!source.tensor.ends_with("bias") && seen.insert(source.tensor).second)
      names.push_back(source.tensor);
  });
  std::vector<Result<bool>> answers(names.size(), Result<bool>(false));
  forEach(names.size(), kReaders, [&](size_t i) { answers[i] = isAllZero(checkpoint, names[i]); });
  std::vector<std::string> zero;
  for (size_t i = 0; i < names.size(); ++i) {
    MOERT_ASSIGN_OR_RETURN(const bool isZeroTensor, std::move(answers[i]));
    if (isZeroTensor)
      zero.push_back(names[i]);
  }
  return zero;
}

} // namespace moec
