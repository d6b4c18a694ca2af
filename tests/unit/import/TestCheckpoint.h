// Checkpoints made by hand, to be broken one field at a time: a tiny model of each family as a
// plain struct that a test changes and then writes into a directory of its own.
#pragma once

#include "runtime/base/Status.h"
#include "tests/unit/support/TemporaryDirectory.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

struct TestTensor {
  std::string name;
  std::string type; // "BF16", "F16" or "F32".
  std::vector<uint64_t> shape;
  std::string bytes;
};

/// A tensor whose elements are small numbers that differ from their neighbours'.
TestTensor testTensor(std::string name, std::string type, std::vector<uint64_t> shape);

/// Eight bytes of length, the header as it is given, and so many zero bytes of data.
std::string safetensorsBytes(const std::string &header, size_t dataBytes);
/// A well-formed file.
std::string safetensorsBytes(const std::vector<TestTensor> &tensors);

struct TestCheckpoint {
  nlohmann::json config;
  nlohmann::json generationConfig; // Null: there is no such file.
  nlohmann::json index;            // Null: there is no such file.
  std::map<std::string, std::vector<TestTensor>> shards;
  std::map<std::string, std::string> raw; // Written last, over the others.

  TestTensor &tensor(const std::string &name);
  void remove(const std::string &name);
  /// Moves everything into two shards with an index.
  void split();
  void write(const TemporaryDirectory &directory) const;
};

/// One layer; V 16, H 8, two heads of 4 on one key/value head, two experts of width 6, top-1.
TestCheckpoint tinyMixtral();
/// The same with width 5, a shared expert of width 7 and biases.
TestCheckpoint tinyQwen2Moe();
/// tinyMixtral or tinyQwen2Moe with all experts of a layer in one tensor.
TestCheckpoint fuseExperts(const TestCheckpoint &checkpoint);

/// What importing a checkpoint says.
moert::Status importStatus(const TestCheckpoint &checkpoint);

/// Fails the running test unless the status refuses bad input with a message that contains all
/// parts, and says what was found and what was expected.
void checkRefused(const moert::Status &status, const std::vector<std::string> &parts);

/// A whole checkpoint with one change, which has to be refused with a message that names the file
/// and contains the fragment.
struct BrokenCheckpoint {
  const char *name;
  void (*change)(TestCheckpoint &);
  const char *file;
  const char *fragment;
};

/// Checks each row, as a subcase of its name, on a fresh checkpoint.
void checkBroken(const std::vector<BrokenCheckpoint> &rows, TestCheckpoint (*make)());
