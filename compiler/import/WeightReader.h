// Reads weights out of stored tensors: a part of one (rows, columns, a matrix of several, a
// vector), decoded or as it is stored, in pieces through a bounded buffer.
//
// Not here: which tensors there are and how they are coded (TensorStore.h).
#pragma once

#include "compiler/import/StoredType.h"
#include "compiler/import/TensorStore.h"
#include "compiler/import/WeightSource.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace moec {

struct BlockRows;
struct StoredPart;

/// A view of a store, which must outlive it. The functions are those of a Checkpoint
/// (Checkpoint.h).
class WeightReader {
public:
  explicit WeightReader(const TensorStore &stored) : store(stored) {}

  moert::Result<StoredType> storedType(const WeightSource &source) const;
  moert::Status readRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                         std::span<float> out) const;
  moert::Status readStoredRows(const WeightSource &source, uint32_t firstRow, uint32_t rowCount,
                               std::span<std::byte> out) const;

private:
  moert::Result<StoredPart> resolve(const WeightSource &source) const;
  moert::Status readPart(const WeightSource &source, const StoredPart &part, uint32_t firstRow,
                         uint32_t rowCount, std::span<std::byte> out) const;
  moert::Status readBlock(const WeightSource &source, const StoredPart &part, const BlockRows &rows,
                          std::span<std::byte> out) const;
  moert::Status readKeptBlock(const WeightSource &source, const StoredPart &part,
                              const BlockRows &rows, std::span<std::byte> out) const;
  moert::Status readWidened(const WeightSource &source, const StoredPart &part, uint32_t firstRow,
                            uint32_t rowCount, std::span<float> out) const;
  template <typename T>
  moert::Status readIntegers(const WeightSource &source, const StoredPart &part, uint32_t firstRow,
                             uint32_t rowCount, std::span<float> out) const;
  moert::Status decodePart(const WeightSource &source, const StoredPart &part, uint32_t firstRow,
                           uint32_t rowCount, std::span<float> out) const;
  moert::Status decodeVector(const WeightSource &source, const StoredPart &part,
                             std::span<float> out) const;
  moert::Status decodeBlock(const WeightSource &source, const StoredPart &part,
                            const BlockRows &rows, std::span<float> out) const;
  moert::Status decodeColumns(const CodedWeight &weight, const CodedRegion &region,
                              std::span<float> out) const;
  moert::Status gather(const StoredPart &part, uint64_t firstElement, uint64_t stride, size_t count,
                       std::byte *out, size_t outStride) const;

  const TensorStore &store;
};

} // namespace moec
