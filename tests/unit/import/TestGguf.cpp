#include "tests/unit/import/TestGguf.h"

std::string ggufText(const std::string &text) {
  return bytesOf(uint64_t{text.size()}) + text;
}

void TestGguf::add(const std::string &name, uint32_t value) {
  keys.push_back(ggufText(name) + bytesOf(uint32_t{4}) + bytesOf(value));
}

void TestGguf::add(const std::string &name, float value) {
  keys.push_back(ggufText(name) + bytesOf(uint32_t{6}) + bytesOf(value));
}

void TestGguf::add(const std::string &name, const char *value) {
  keys.push_back(ggufText(name) + bytesOf(uint32_t{8}) + ggufText(value));
}

void TestGguf::add(const std::string &name, const std::vector<std::string> &values) {
  std::string key = ggufText(name) + bytesOf(uint32_t{9}) + bytesOf(uint32_t{8}) +
                    bytesOf(uint64_t{values.size()});
  for (const std::string &value : values)
    key += ggufText(value);
  keys.push_back(std::move(key));
}

void TestGguf::addTensor(std::string name, std::vector<uint64_t> shape,
                         const std::vector<float> &values) {
  std::string data;
  for (const float value : values)
    data += bytesOf(value);
  tensors.push_back({std::move(name), std::move(shape), 0, std::move(data)});
}

void TestGguf::addTensor(std::string name, std::vector<uint64_t> shape) {
  static constexpr float kScale = 1.0f / 64;
  uint64_t count = 1;
  for (const uint64_t size : shape)
    count *= size;
  std::vector<float> values;
  for (uint64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(i + 1) * kScale);
  addTensor(std::move(name), std::move(shape), values);
}

std::string TestGguf::bytes() const {
  const auto pad = [&](std::string &text) {
    text.resize((text.size() + alignment - 1) / alignment * alignment);
  };
  std::string file = "GGUF" + bytesOf(version) + bytesOf(uint64_t{tensors.size()}) +
                     bytesOf(uint64_t{keys.size()});
  for (const std::string &key : keys)
    file += key;
  std::string data;
  for (const TestGgufTensor &tensor : tensors) {
    file += ggufText(tensor.name) + bytesOf(static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      file += bytesOf(*size);
    file += bytesOf(tensor.type) + bytesOf(uint64_t{data.size()});
    data += tensor.bytes;
    pad(data);
  }
  pad(file);
  return file + data;
}
