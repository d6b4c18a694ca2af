// Reading weights: every layout of a WeightSource, in every stored type.
#include "compiler/import/ImportCheckpoint.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>

using moec::Checkpoint;
using moec::importCheckpoint;
using moec::StoredType;
using moec::WeightSource;

namespace {

/// A checkpoint whose model.safetensors holds only these tensors.
struct OpenedTensors {
  explicit OpenedTensors(const std::vector<TestTensor> &tensors) : checkpoint(open(tensors)) {}
  Checkpoint open(const std::vector<TestTensor> &tensors) {
    TestCheckpoint files = tinyMixtral();
    files.shards["model.safetensors"] = tensors;
    files.write(directory);
    auto result = Checkpoint::open(directory.path());
    REQUIRE(result.isOk());
    return std::move(result).value();
  }
  TemporaryDirectory directory;
  Checkpoint checkpoint;
};

WeightSource source(std::string_view tensor, uint32_t rows, uint32_t cols) {
  WeightSource result;
  result.tensor = std::string(tensor);
  result.rows = rows;
  result.cols = cols;
  return result;
}

std::vector<float> readAll(const Checkpoint &checkpoint, const WeightSource &weight) {
  std::vector<float> values(size_t{weight.rows} * weight.cols);
  const moert::Status status = checkpoint.readRows(weight, 0, weight.rows, values);
  INFO(status.message());
  REQUIRE(status.isOk());
  return values;
}

/// An F32 tensor whose element i is i.
TestTensor counting(std::string name, std::vector<uint64_t> shape) {
  TestTensor tensor = testTensor(std::move(name), "F32", std::move(shape));
  for (size_t i = 0; i < tensor.bytes.size() / 4; ++i) {
    const float value = static_cast<float>(i);
    std::memcpy(tensor.bytes.data() + 4 * i, &value, 4);
  }
  return tensor;
}

/// Little-endian 16-bit words.
std::string words(std::initializer_list<uint16_t> values) {
  std::string bytes;
  for (const uint16_t value : values) {
    bytes += static_cast<char>(value & 0xff);
    bytes += static_cast<char>(value >> 8);
  }
  return bytes;
}

} // namespace

TEST_CASE("BF16 values are the upper halves of f32") {
  const OpenedTensors opened({{"w", "BF16", {1, 4}, words({0x3f80, 0xc020, 0x0001, 0x7f80})}});
  const std::vector<float> values = readAll(opened.checkpoint, source("w", 1, 4));
  CHECK(values[0] == 1.0f);
  CHECK(values[1] == -2.5f);
  CHECK(values[2] == 0x1p-133f);
  CHECK(values[3] == std::numeric_limits<float>::infinity());
}

TEST_CASE("F16 values are exact, subnormal ones too") {
  const OpenedTensors opened({{"w", "F16", {4}, words({0x3c00, 0xc100, 0x0001, 0x7bff})}});
  const std::vector<float> values = readAll(opened.checkpoint, source("w", 1, 4));
  CHECK(values == std::vector<float>{1.0f, -2.5f, 0x1p-24f, 65504.0f});
}

TEST_CASE("a weight has its tensor's type") {
  const OpenedTensors opened({testTensor("a", "F16", {2, 2}), testTensor("b", "BF16", {2, 2}),
                              testTensor("c", "F32", {2, 2})});
  CHECK(*opened.checkpoint.storedType(source("a", 2, 2)) == StoredType::kF16);
  CHECK(*opened.checkpoint.storedType(source("b", 2, 2)) == StoredType::kBf16);
  CHECK(*opened.checkpoint.storedType(source("c", 2, 2)) == StoredType::kF32);
}

TEST_CASE("a range of rows is read from its place") {
  const OpenedTensors opened({counting("before", {5}), counting("w", {4, 3})});
  std::vector<float> values(6);
  REQUIRE(opened.checkpoint.readRows(source("w", 4, 3), 1, 2, values).isOk());
  CHECK(values == std::vector<float>{3, 4, 5, 6, 7, 8});
}

TEST_CASE("stored rows are the file's bytes") {
  const TestTensor tensor = testTensor("w", "BF16", {4, 3});
  const OpenedTensors opened({tensor});
  std::string bytes(12, '\0');
  REQUIRE(opened.checkpoint
              .readStoredRows(source("w", 4, 3), 2, 2, std::as_writable_bytes(std::span(bytes)))
              .isOk());
  CHECK(bytes == tensor.bytes.substr(12));
}

TEST_CASE("an index picks one matrix of a fused tensor, firstRow and rows a part of it") {
  const OpenedTensors opened({counting("w", {2, 4, 3})});
  WeightSource up = source("w", 2, 3);
  up.index = 1;
  up.firstRow = 2;
  CHECK(readAll(opened.checkpoint, up) == std::vector<float>{18, 19, 20, 21, 22, 23});
}

TEST_CASE("rowStep 2 takes every other row") {
  const OpenedTensors opened({counting("w", {4, 2})});
  WeightSource odd = source("w", 2, 2);
  odd.firstRow = 1;
  odd.rowStep = 2;
  CHECK(readAll(opened.checkpoint, odd) == std::vector<float>{2, 3, 6, 7});
}

TEST_CASE("a transposed source reads columns as rows") {
  const OpenedTensors opened({counting("w", {2, 3})}); // 0 1 2 / 3 4 5
  WeightSource transposed = source("w", 3, 2);
  transposed.transposed = true;
  CHECK(readAll(opened.checkpoint, transposed) == std::vector<float>{0, 3, 1, 4, 2, 5});
  std::vector<float> last(2);
  REQUIRE(opened.checkpoint.readRows(transposed, 2, 1, last).isOk());
  CHECK(last == std::vector<float>{2, 5});
}

TEST_CASE("a transposed source with an index and a step reads interleaved columns") {
  const OpenedTensors opened({counting("w", {2, 2, 4})}); // Matrix 1: 8 9 10 11 / 12 13 14 15
  WeightSource up = source("w", 2, 2);
  up.index = 1;
  up.firstRow = 1;
  up.rowStep = 2;
  up.transposed = true;
  CHECK(readAll(opened.checkpoint, up) == std::vector<float>{9, 13, 11, 15});
}

TEST_CASE("blocks of rows are read one below the other") {
  const OpenedTensors opened({counting("w", {7, 2})});
  WeightSource blocks = source("w", 4, 2);
  blocks.firstRow = 1;
  blocks.blocks = 2;
  blocks.blockStep = 4;
  const std::vector<float> expected = {2, 3, 4, 5, 10, 11, 12, 13};
  CHECK(readAll(opened.checkpoint, blocks) == expected);
  std::vector<float> middle(4);
  REQUIRE(opened.checkpoint.readRows(blocks, 1, 2, middle).isOk());
  CHECK(middle == std::vector<float>{4, 5, 10, 11});
}

TEST_CASE("transposed blocks are each transposed") {
  // Two blocks of 2 x 3, with a row between them: 0 1 2 / 3 4 5 and 9 10 11 / 12 13 14.
  const OpenedTensors opened({counting("w", {6, 3})});
  WeightSource blocks = source("w", 6, 2);
  blocks.transposed = true;
  blocks.blocks = 2;
  blocks.blockStep = 3;
  CHECK(readAll(opened.checkpoint, blocks) ==
        std::vector<float>{0, 3, 1, 4, 2, 5, 9, 12, 10, 13, 11, 14});
  std::vector<float> middle(6);
  REQUIRE(opened.checkpoint.readRows(blocks, 2, 3, middle).isOk());
  CHECK(middle == std::vector<float>{2, 5, 9, 12, 10, 13});
}

TEST_CASE("a depthwise convolution's weights are a matrix of its channels") {
  const OpenedTensors opened({counting("w", {4, 1, 3})});
  WeightSource rows = source("w", 2, 3);
  rows.firstRow = 1;
  CHECK(readAll(opened.checkpoint, rows) == std::vector<float>{3, 4, 5, 6, 7, 8});
  const auto weight = opened.checkpoint.weight("w");
  REQUIRE(weight.isOk());
  CHECK(weight->shape == std::vector<uint64_t>{4, 3});
}

TEST_CASE("1 is added where the source says so, but not to stored bytes") {
  const OpenedTensors opened({counting("w", {4})});
  WeightSource norm = source("w", 1, 4);
  norm.addsOne = true;
  CHECK(readAll(opened.checkpoint, norm) == std::vector<float>{1, 2, 3, 4});
  std::vector<std::byte> bytes(4 *
                               moec::storedBlock(opened.checkpoint.storedType(norm).value()).bytes);
  const moert::Status refused = opened.checkpoint.readStoredRows(norm, 0, 1, bytes);
  CHECK(refused.message().find("found a weight to change, expected stored rows") !=
        std::string::npos);
}

TEST_CASE("in a vector firstRow and rowStep count elements") {
  const OpenedTensors opened({counting("b", {2, 6})});
  WeightSource bias = source("b", 1, 3);
  bias.index = 1;
  bias.firstRow = 1;
  bias.rowStep = 2;
  CHECK(readAll(opened.checkpoint, bias) == std::vector<float>{7, 9, 11});
}

TEST_CASE("stacked vectors are read as one vector of all their elements") {
  const OpenedTensors opened({counting("b", {3, 4})});
  WeightSource up = source("b", 1, 6);
  up.firstRow = 1;
  up.rowStep = 2;
  up.stackedVectors = 3;
  CHECK(readAll(opened.checkpoint, up) == std::vector<float>{1, 3, 5, 7, 9, 11});
}

TEST_CASE("strided reads larger than their buffer are complete") {
  // 700,000 elements two apart: the 1 MiB buffer holds 131,072 of them.
  const OpenedTensors opened({counting("b", {1'400'000})});
  WeightSource odd = source("b", 1, 700'000);
  odd.firstRow = 1;
  odd.rowStep = 2;
  const std::vector<float> values = readAll(opened.checkpoint, odd);
  bool allRight = true;
  for (size_t i = 0; i < values.size(); ++i)
    allRight = allRight && values[i] == static_cast<float>(2 * i + 1);
  CHECK(allRight);
}

TEST_CASE("values are right after the page cache was dropped") {
  // 96 MiB are read, so the cache is dropped in between.
  const OpenedTensors opened({counting("w", {1024, 1024})});
  const std::vector<float> first = readAll(opened.checkpoint, source("w", 1024, 1024));
  for (int i = 0; i < 23; ++i)
    REQUIRE(readAll(opened.checkpoint, source("w", 1024, 1024)) == first);
}

TEST_CASE("several threads may read at once") {
  const OpenedTensors opened({counting("w", {64, 64})});
  std::vector<int> right(4, 0);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < right.size(); ++thread)
    threads.emplace_back([&, thread] {
      std::vector<float> row(64);
      for (uint32_t i = 0; i < 64; ++i)
        if (opened.checkpoint.readRows(source("w", 64, 64), i, 1, row).isOk() &&
            row[0] == static_cast<float>(64 * i))
          ++right[thread];
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(right == std::vector<int>(4, 64));
}

namespace {

/// A source of the tensor w [2, 4, 3] with one field changed; unchanged, it is valid.
struct Outside {
  const char *name;
  void (*change)(WeightSource &);
};

const Outside kOutside[] = {
    {"an unknown tensor", [](WeightSource &w) { w.tensor += "x"; }},
    {"an index past the end", [](WeightSource &w) { w.index = 2; }},
    {"a row too many", [](WeightSource &w) { w.rows = 5; }},
    {"a first row that moves the last one out", [](WeightSource &w) { w.firstRow = 1; }},
    {"a step that moves the last one out", [](WeightSource &w) { w.rowStep = 2; }},
    {"the largest step", [](WeightSource &w) { w.rowStep = 0xffffffff; }},
    {"a step of 0", [](WeightSource &w) { w.rowStep = 0; }},
    {"blocks that do not divide the rows", [](WeightSource &w) { w.blocks = 3; }},
    {"no blocks", [](WeightSource &w) { w.blocks = 0; }},
    {"a last block that ends outside",
     [](WeightSource &w) {
       w.blocks = 2;
       w.blockStep = 3;
     }},
    {"a transposed last block that ends outside",
     [](WeightSource &w) {
       w = source("w", 6, 2);
       w.index = 1;
       w.transposed = true;
       w.blocks = 2;
       w.blockStep = 3;
     }},
    {"other columns", [](WeightSource &w) { w.cols = 4; }},
    {"no rows", [](WeightSource &w) { w.rows = 0; }},
    {"no index into three dimensions", [](WeightSource &w) { w.index.reset(); }},
    {"transposed", [](WeightSource &w) { w.transposed = true; }},
    {"a vector that is too short", [](WeightSource &w) { w = source("b", 1, 6); }},
    {"a vector as a matrix", [](WeightSource &w) { w = source("b", 5, 1); }},
    {"more stacked vectors than there are",
     [](WeightSource &w) {
       w = source("m", 1, 8);
       w.stackedVectors = 3;
     }},
    {"stacked vectors that are too short",
     [](WeightSource &w) {
       w = source("m", 1, 9);
       w.stackedVectors = 2;
     }},
    {"a matrix of stacked vectors",
     [](WeightSource &w) {
       w = source("m", 2, 4);
       w.stackedVectors = 2;
     }},
    {"one vector as stacked ones",
     [](WeightSource &w) {
       w = source("b", 1, 5);
       w.stackedVectors = 1;
     }},
    {"a scalar", [](WeightSource &w) { w = source("s", 1, 1); }},
    {"integers", [](WeightSource &w) { w = source("i", 2, 2); }},
};

} // namespace

TEST_CASE("a source that leaves its tensor is refused:") {
  const OpenedTensors opened({counting("w", {2, 4, 3}), counting("b", {5}), counting("s", {}),
                              counting("m", {2, 4}), testTensor("i", "I16", {2, 2})});
  for (const Outside &outside : kOutside) {
    SUBCASE(outside.name) {
      WeightSource weight = source("w", 4, 3);
      weight.index = 0;
      REQUIRE(opened.checkpoint.storedType(weight).isOk());
      outside.change(weight);
      checkRefused(opened.checkpoint.storedType(weight).status(), {opened.directory.path()});
    }
  }
}

TEST_CASE("rows outside of a source and buffers of the wrong size are refused") {
  const OpenedTensors opened({counting("w", {4, 3})});
  std::vector<float> room(6);
  checkRefused(opened.checkpoint.readRows(source("w", 4, 3), 3, 2, room), {"\"w\""});
  checkRefused(opened.checkpoint.readRows(source("w", 4, 3), 0xffffffff, 2, room), {"\"w\""});
  checkRefused(opened.checkpoint.readRows(source("w", 4, 3), 0, 1, room), {"\"w\""});
  CHECK(opened.checkpoint.readRows(source("w", 4, 3), 4, 0, std::span<float>()).isOk());
}

TEST_CASE("reading a file that shrank after it was opened fails") {
  const OpenedTensors opened({counting("w", {4096})});
  std::filesystem::resize_file(opened.directory.path() + "/model.safetensors", 1000);
  std::vector<float> room(4096);
  const moert::Status status = opened.checkpoint.readRows(source("w", 1, 4096), 0, 1, room);
  CHECK(status.code() == moert::StatusCode::kFailed);
  CHECK(status.message().find("model.safetensors") != std::string::npos);
}

TEST_CASE("fused experts hold the same values as single ones") {
  const TestCheckpoint checkpoints[] = {tinyMixtral(), tinyQwen2Moe()};
  for (const TestCheckpoint &single : checkpoints) {
    const TemporaryDirectory singleDirectory, fusedDirectory;
    single.write(singleDirectory);
    fuseExperts(single).write(fusedDirectory);
    const auto a = moec::importCheckpoint(singleDirectory.path());
    const auto b = moec::importCheckpoint(fusedDirectory.path());
    REQUIRE(a.isOk());
    REQUIRE(b.isOk());
    for (size_t expert = 0; expert < 2; ++expert) {
      const moec::GluDescription &x = a->description.layers[0].moe->experts[expert];
      const moec::GluDescription &y = b->description.layers[0].moe->experts[expert];
      CHECK(x.gate.weight.tensor != y.gate.weight.tensor);
      CHECK(readAll(a->checkpoint, x.gate.weight) == readAll(b->checkpoint, y.gate.weight));
      CHECK(readAll(a->checkpoint, x.up.weight) == readAll(b->checkpoint, y.up.weight));
      CHECK(readAll(a->checkpoint, x.down.weight) == readAll(b->checkpoint, y.down.weight));
    }
  }
}

TEST_CASE("shards give the same tensors as one file, and one file is preferred to an index") {
  TestCheckpoint files = tinyMixtral();
  const std::string bytes = files.tensor("lm_head.weight").bytes;
  files.split();
  const TemporaryDirectory directory;
  files.write(directory);
  const auto sharded = moec::importCheckpoint(directory.path());
  REQUIRE(sharded.isOk());
  std::string stored(bytes.size(), '\0');
  REQUIRE(sharded->checkpoint
              .readStoredRows(sharded->description.head.weight, 0, 16,
                              std::as_writable_bytes(std::span(stored)))
              .isOk());
  CHECK(stored == bytes);

  directory.write("model.safetensors.index.json", "not even JSON");
  tinyMixtral().write(directory);
  CHECK(moec::importCheckpoint(directory.path()).isOk());
}

TEST_CASE("files that are links are followed, as in a download cache") {
  const TemporaryDirectory blobs, directory;
  tinyMixtral().write(blobs);
  for (const char *file : {"config.json", "model.safetensors"})
    std::filesystem::create_symlink(blobs.path() + "/" + file, directory.path() + "/" + file);
  CHECK(moec::importCheckpoint(directory.path()).isOk());
}

TEST_CASE("a checkpoint as published gives no warning") {
  TemporaryDirectory directory;
  tinyMixtral().write(directory);
  std::string warning;
  REQUIRE(
      importCheckpoint(directory.path(), [&](std::string_view line) { warning += line; }).isOk());
  CHECK(warning == "");
}
