// Quantized checkpoints for the tests of codecs: tensors from chosen codes, and their decoded
// values.
#pragma once

#include "compiler/import/Checkpoint.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

/// A matrix of codes, row by row.
struct Codes {
  uint64_t rows = 0, cols = 0;
  std::vector<uint32_t> values;

  uint32_t at(uint64_t row, uint64_t col) const { return values[row * cols + col]; }
};

/// Codes from a fixed sequence, below `limit`.
Codes someCodes(uint64_t rows, uint64_t cols, uint32_t limit);

/// One byte per code, whatever the type's name.
TestTensor byteTensor(std::string name, std::string type, std::vector<uint64_t> shape,
                      const std::vector<uint32_t> &codes);
TestTensor floatTensor(std::string name, std::vector<uint64_t> shape,
                       const std::vector<float> &values);
/// The upper halves of the values; they must have no lower ones.
TestTensor bf16Tensor(std::string name, std::vector<uint64_t> shape,
                      const std::vector<float> &values);
TestTensor f16Tensor(std::string name, std::vector<uint64_t> shape,
                     const std::vector<float> &values);
TestTensor int32Tensor(std::string name, std::vector<uint64_t> shape,
                       const std::vector<uint32_t> &values);

/// Words of 8 codes of 4 bits along the rows of a matrix, low first; the last word of a row is
/// padded. [rows, ceil(cols / 8)].
std::vector<uint32_t> packedAlongRows(const Codes &codes);
/// The same along columns: [ceil(rows / 8), cols].
std::vector<uint32_t> packedAlongColumns(const Codes &codes);

/// A checkpoint that holds only these tensors.
TestCheckpoint quantizedTensors(nlohmann::json quantization, std::vector<TestTensor> tensors);

moec::WeightSource wholeWeight(std::string tensor, uint64_t rows, uint64_t cols);
/// All rows of a weight; fails the test if it is refused.
std::vector<float> decoded(const TestCheckpoint &checkpoint, const moec::WeightSource &source);
moec::StoredType storedTypeOf(const TestCheckpoint &checkpoint, const moec::WeightSource &source);
moert::Status decodingStatus(const TestCheckpoint &checkpoint, const moec::WeightSource &source);

/// value(row, col) for all elements.
std::vector<float> tabulate(uint64_t rows, uint64_t cols,
                            const std::function<float(uint64_t, uint64_t)> &value);

/// One change to tensors or config, after which reading the weight is refused with a message that
/// contains the fragment.
struct BrokenCodes {
  const char *name;
  void (*change)(TestCheckpoint &);
  const char *fragment;
};
void checkBrokenCodes(const std::vector<BrokenCodes> &rows,
                      const std::function<TestCheckpoint()> &make,
                      const moec::WeightSource &source);
