#include "tests/unit/import/TestCodec.h"

#include "runtime/base/HalfFloat.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>

using moec::Checkpoint;
using moec::WeightSource;
using moert::Status;

Codes someCodes(uint64_t rows, uint64_t cols, uint32_t limit) {
  Codes codes{rows, cols, {}};
  uint32_t state = 12345;
  for (uint64_t i = 0; i < rows * cols; ++i) {
    state = state * 1664525 + 1013904223; // Numerical Recipes' generator.
    codes.values.push_back((state >> 16) % limit);
  }
  return codes;
}

TestTensor byteTensor(std::string name, std::string type, std::vector<uint64_t> shape,
                      const std::vector<uint32_t> &codes) {
  TestTensor tensor{std::move(name), std::move(type), std::move(shape), {}};
  for (const uint32_t code : codes)
    tensor.bytes += static_cast<char>(code);
  return tensor;
}

template <typename T, typename Value>
static TestTensor wordTensor(std::string name, std::string type, std::vector<uint64_t> shape,
                             const std::vector<Value> &values, T (*convert)(Value)) {
  TestTensor tensor{std::move(name), std::move(type), std::move(shape), {}};
  for (const Value value : values) {
    const T word = convert(value);
    tensor.bytes.append(reinterpret_cast<const char *>(&word), sizeof word);
  }
  return tensor;
}

TestTensor floatTensor(std::string name, std::vector<uint64_t> shape,
                       const std::vector<float> &values) {
  return wordTensor<float, float>(std::move(name), "F32", std::move(shape), values,
                                  [](float value) { return value; });
}

TestTensor bf16Tensor(std::string name, std::vector<uint64_t> shape,
                      const std::vector<float> &values) {
  return wordTensor<uint16_t, float>(
      std::move(name), "BF16", std::move(shape), values,
      [](float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); });
}

TestTensor f16Tensor(std::string name, std::vector<uint64_t> shape,
                     const std::vector<float> &values) {
  return wordTensor<uint16_t, float>(std::move(name), "F16", std::move(shape), values,
                                     [](float value) { return moert::f32ToF16(value); });
}

TestTensor int32Tensor(std::string name, std::vector<uint64_t> shape,
                       const std::vector<uint32_t> &values) {
  return wordTensor<uint32_t, uint32_t>(std::move(name), "I32", std::move(shape), values,
                                        [](uint32_t value) { return value; });
}

std::vector<uint32_t> packedAlongRows(const Codes &codes) {
  const uint64_t words = (codes.cols + 7) / 8;
  std::vector<uint32_t> packed(codes.rows * words);
  for (uint64_t r = 0; r < codes.rows; ++r)
    for (uint64_t c = 0; c < codes.cols; ++c)
      packed[r * words + c / 8] |= codes.at(r, c) << 4 * (c % 8);
  return packed;
}

std::vector<uint32_t> packedAlongColumns(const Codes &codes) {
  std::vector<uint32_t> packed((codes.rows + 7) / 8 * codes.cols);
  for (uint64_t r = 0; r < codes.rows; ++r)
    for (uint64_t c = 0; c < codes.cols; ++c)
      packed[r / 8 * codes.cols + c] |= codes.at(r, c) << 4 * (r % 8);
  return packed;
}

TestCheckpoint quantizedTensors(nlohmann::json quantization, std::vector<TestTensor> tensors) {
  TestCheckpoint checkpoint = tinyMixtral();
  checkpoint.config["quantization_config"] = std::move(quantization);
  checkpoint.shards["model.safetensors"] = std::move(tensors);
  return checkpoint;
}

WeightSource wholeWeight(std::string tensor, uint64_t rows, uint64_t cols) {
  WeightSource source;
  source.tensor = std::move(tensor);
  source.rows = static_cast<uint32_t>(rows);
  source.cols = static_cast<uint32_t>(cols);
  return source;
}

static Status decode(const TestCheckpoint &files, const WeightSource &source,
                     std::vector<float> &values) {
  const TemporaryDirectory directory;
  files.write(directory);
  MOERT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(directory.path()));
  values.resize(size_t{source.rows} * source.cols);
  MOERT_RETURN_IF_ERROR(checkpoint.readRows(source, 0, source.rows, values));
  // Row by row, the values are the same.
  std::vector<float> row(source.cols);
  for (uint32_t r = 0; r < source.rows; ++r) {
    MOERT_RETURN_IF_ERROR(checkpoint.readRows(source, r, 1, row));
    CHECK(std::memcmp(row.data(), &values[size_t{r} * source.cols], row.size() * 4) == 0);
  }
  return Status();
}

std::vector<float> decoded(const TestCheckpoint &checkpoint, const WeightSource &source) {
  std::vector<float> values;
  const Status status = decode(checkpoint, source, values);
  INFO(status.message());
  REQUIRE(status.isOk());
  return values;
}

Status decodingStatus(const TestCheckpoint &checkpoint, const WeightSource &source) {
  std::vector<float> values;
  return decode(checkpoint, source, values);
}

moec::StoredType storedTypeOf(const TestCheckpoint &checkpoint, const WeightSource &source) {
  const TemporaryDirectory directory;
  checkpoint.write(directory);
  const auto opened = moec::Checkpoint::open(directory.path());
  REQUIRE(opened.isOk());
  const auto type = opened->storedType(source);
  REQUIRE(type.isOk());
  return *type;
}

std::vector<float> tabulate(uint64_t rows, uint64_t cols,
                            const std::function<float(uint64_t, uint64_t)> &value) {
  std::vector<float> values;
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t col = 0; col < cols; ++col)
      values.push_back(value(row, col));
  return values;
}

void checkBrokenCodes(const std::vector<BrokenCodes> &rows,
                      const std::function<TestCheckpoint()> &make, const WeightSource &source) {
  REQUIRE(decodingStatus(make(), source).isOk());
  for (const BrokenCodes &row : rows)
    SUBCASE(row.name) {
      TestCheckpoint checkpoint = make();
      row.change(checkpoint);
      checkRefused(decodingStatus(checkpoint, source), {row.fragment});
    }
}
