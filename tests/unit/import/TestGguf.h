// GGUF files written by hand, to be read back whole or broken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// A key's or a header's bytes, little-endian.
template <typename Number> std::string bytesOf(Number value) {
  return {reinterpret_cast<const char *>(&value), sizeof value};
}
std::string ggufText(const std::string &text);

struct TestGgufTensor {
  std::string name;
  std::vector<uint64_t> shape; // In C order.
  uint32_t type = 0;           // ggml's number; 0: F32.
  std::string bytes;
};

struct TestGguf {
  uint32_t version = 3;
  uint64_t alignment = 32;
  std::vector<std::string> keys; // Each the bytes of a name, a type and a value.
  std::vector<TestGgufTensor> tensors;

  void add(const std::string &name, uint32_t value);
  void add(const std::string &name, float value);
  void add(const std::string &name, const char *value);
  void add(const std::string &name, const std::vector<std::string> &values);
  void addTensor(std::string name, std::vector<uint64_t> shape, const std::vector<float> &values);
  /// The same with numbers that all differ.
  void addTensor(std::string name, std::vector<uint64_t> shape);

  std::string bytes() const;
};
