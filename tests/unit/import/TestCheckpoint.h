// Small valid checkpoints, to be broken one field at a time: a tiny model of each family as a plain
// struct, which a test changes and then writes to a directory of its own.
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

/// A tensor of small numbers, each different from its neighbours.
TestTensor testTensor(std::string name, std::string type, std::vector<uint64_t> shape);

/// Eight bytes of length, the given header, and `dataBytes` zero bytes of data.
std::string safetensorsBytes(const std::string &header, size_t dataBytes);
/// A well-formed file.
std::string safetensorsBytes(const std::vector<TestTensor> &tensors);

struct TestCheckpoint {
  nlohmann::json config;
  nlohmann::json generationConfig; // Null: no such file.
  nlohmann::json index;            // Null: no such file.
  std::map<std::string, std::vector<TestTensor>> shards;
  std::map<std::string, std::string> raw; // Written last; replaces the others.

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

/// The status of importing a checkpoint.
moert::Status importStatus(const TestCheckpoint &checkpoint);

/// Fails the test unless the status is a refusal of bad input whose message contains all parts, and
/// names what was found and what was expected.
void checkRefused(const moert::Status &status, const std::vector<std::string> &parts);

/// Applies one change to a valid checkpoint, which must then be refused with a message that names
/// the file and contains the fragment.
struct BrokenCheckpoint {
  const char *name;
  void (*change)(TestCheckpoint &);
  const char *file;
  const char *fragment;
};

/// Checks each row on a fresh checkpoint, as a subcase with the row's name.
void checkBroken(const std::vector<BrokenCheckpoint> &rows, TestCheckpoint (*make)());
