#include "runtime/images/PixelsFile.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/InputText.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>

namespace moert {

namespace {

constexpr uint64_t kLengthBytes = 8, kMostImages = 1 << 16;

using Json = nlohmann::json;

/// The entry of the tensor; null where the header is not one of safetensors or has none.
Json findPixels(std::string_view header) {
  const Json all = Json::parse(header, nullptr, false);
  const auto entry = all.is_object() ? all.find("pixels") : all.end();
  return entry != all.end() && entry->is_object() ? *entry : Json();
}

/// A list of non-negative integers; empty where it is something else.
std::vector<uint64_t> numbersOf(const Json &entry, const char *key) {
  std::vector<uint64_t> numbers;
  const auto list = entry.find(key);
  if (list == entry.end() || !list->is_array())
    return numbers;
  for (const Json &element : *list)
    numbers.push_back(element.is_number_unsigned() ? element.get<uint64_t>() : UINT64_MAX);
  return numbers;
}

} // namespace

Result<std::vector<float>> readPixels(const std::string &path, const PatchesInstruction &images) {
  MOERT_ASSIGN_OR_RETURN(const std::string content, readInput(path));
  const std::string name = inputName(path);
  uint64_t length = 0;
  if (content.size() >= kLengthBytes)
    std::memcpy(&length, content.data(), kLengthBytes);
  if (length == 0 || length > content.size() - std::min<uint64_t>(content.size(), kLengthBytes))
    return invalidInput(name, ": found no header of safetensors, expected a file with the tensor "
                              "\"pixels\"");
  const std::string_view data = std::string_view(content).substr(kLengthBytes + length);
  const Json entry = findPixels(std::string_view(content).substr(kLengthBytes, length));
  if (!entry.is_object())
    return invalidInput(name, ": found no tensor \"pixels\" in its header, expected one");
  const std::vector<uint64_t> shape = numbersOf(entry, "shape");
  const std::vector<uint64_t> offsets = numbersOf(entry, "data_offsets");
  if (entry.value("dtype", Json()) != "F32" || shape.size() != 4 || shape[0] == 0 ||
      shape[0] > kMostImages || shape[1] != images.channels || shape[2] != images.side ||
      shape[3] != images.side)
    return invalidInput(name, ": tensor \"pixels\": found ", entry.value("dtype", Json()).dump(),
                        " ", entry.value("shape", Json()).dump(), ", expected \"F32\" [N,",
                        images.channels, ",", images.side, ",", images.side, "] with 1 to ",
                        kMostImages, " images");
  std::vector<float> pixels(shape[0] * shape[1] * shape[2] * shape[3]);
  const uint64_t bytes = pixels.size() * sizeof(float);
  if (offsets.size() != 2 || !rangeFits(offsets[0], bytes, data.size()) ||
      offsets[1] != offsets[0] + bytes)
    return invalidInput(name, ": tensor \"pixels\": found data_offsets ",
                        entry.value("data_offsets", Json()).dump(), ", expected ", bytes,
                        " bytes of the ", data.size(), " after the header");
  std::memcpy(pixels.data(), data.data() + offsets[0], bytes);
  for (const float value : pixels)
    if (!std::isfinite(value))
      return invalidInput(name, ": tensor \"pixels\": found ", value, ", expected finite numbers");
  return pixels;
}

} // namespace moert
