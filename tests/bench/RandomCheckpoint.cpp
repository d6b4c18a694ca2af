// Writes random weights for a config.json: a checkpoint of any supported model's real dimensions,
// for measuring sizes, memory and speed.
//
//     random_checkpoint DIRECTORY
//
// Reads DIRECTORY/config.json and writes DIRECTORY/model.safetensors in BF16, the same bytes on
// each run. A matrix of n inputs has a deviation of 1/sqrt(n), so that activations keep their size;
// vectors are near 1 (norms) or near 0 (biases).
#include "compiler/import/ConfigOnly.h"
#include "compiler/import/TensorCheck.h"
#include "runtime/base/HalfFloat.h"
#include "runtime/base/OutputFile.h"

#include <cmath>
#include <cstdio>
#include <span>

using namespace moec;
using namespace moert;

namespace {

/// SplitMix64 (Steele, Lea, Flood 2014).
class Noise {
public:
  float uniform() { // -1 to 1.
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<float>(static_cast<int32_t>(z >> 32)) * 0x1p-31F;
  }

private:
  uint64_t state = 0;
};

using Shapes = std::map<std::string, std::vector<uint64_t>>;

uint64_t valuesOf(const std::vector<uint64_t> &shape) {
  uint64_t values = 1;
  for (const uint64_t dimension : shape)
    values *= dimension;
  return values;
}

std::string headerOf(const Shapes &shapes) {
  std::string header = "{";
  uint64_t offset = 0;
  for (const auto &[name, shape] : shapes) {
    const uint64_t end = offset + 2 * valuesOf(shape);
    header +=
        strCat(header.size() > 1 ? "," : "", "\"", name, "\":{\"dtype\":\"BF16\",\"shape\":[");
    for (size_t i = 0; i < shape.size(); ++i)
      header += strCat(i == 0 ? "" : ",", shape[i]);
    header += strCat("],\"data_offsets\":[", offset, ",", end, "]}");
    offset = end;
  }
  header += "}";
  return header.append((8 - header.size() % 8) % 8, ' ');
}

Status writeTensor(const std::string &name, const std::vector<uint64_t> &shape, Noise &noise,
                   OutputFile &file) {
  const bool isVector = shape.size() == 1, isBias = name.ends_with("bias");
  const float base = isVector && !isBias ? 1 : 0;
  const float spread = isVector ? 0.1F : std::sqrt(3.0F / static_cast<float>(shape.back()));
  std::vector<uint16_t> values(1 << 16);
  for (uint64_t left = valuesOf(shape); left > 0;) {
    const size_t count = std::min<uint64_t>(left, values.size());
    for (size_t i = 0; i < count; ++i)
      values[i] = f32ToBf16(base + spread * noise.uniform());
    MOERT_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(values).first(count))));
    left -= count;
  }
  return {};
}

Status writeCheckpoint(const std::string &directory) {
  MOERT_ASSIGN_OR_RETURN(const ConfigOnly config, describeConfig(directory));
  const Shapes shapes = tensorShapes(config.description);
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(directory + "/model.safetensors"));
  const std::string header = headerOf(shapes);
  const uint64_t headerBytes = header.size();
  MOERT_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(&headerBytes, 1))));
  MOERT_RETURN_IF_ERROR(file.append(std::string_view(header)));
  Noise noise;
  for (const auto &[name, shape] : shapes)
    MOERT_RETURN_IF_ERROR(writeTensor(name, shape, noise, file));
  return file.commit();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fputs("random_checkpoint DIRECTORY\n", stderr);
    return 2;
  }
  const Status status = writeCheckpoint(argv[1]);
  if (!status.isOk())
    std::fprintf(stderr, "random_checkpoint: %s\n", status.message().c_str());
  return status.isOk() ? 0 : 2;
}
