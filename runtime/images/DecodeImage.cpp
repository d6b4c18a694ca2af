#include "runtime/images/DecodeImage.h"

// The decoder is in StbImage.cpp; both see the same declarations.
#include "runtime/images/StbImage.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace moert {

static const stbi_uc *bytesOf(std::string_view content) {
  return reinterpret_cast<const stbi_uc *>(content.data());
}

constexpr const char *kExpected = "expected PNG, JPEG, or PNM of 8 bits";

Result<ImageSize> readImageSize(std::string_view content, const std::string &name) {
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(bytesOf(content), static_cast<int>(content.size()), &width, &height,
                             &channels))
    return invalidInput(name, ": found no header of an image that can be read, ", kExpected);
  if (width <= 0 || height <= 0 || uint64_t(width) * uint64_t(height) > kMostPixels)
    return invalidInput(name, ": found an image of ", width, " x ", height,
                        " pixels, expected at most ", kMostPixels, " in all");
  if (const auto [narrow, wide] = std::minmax(width, height);
      uint64_t(wide) > uint64_t(narrow) * kMostRatio)
    return invalidInput(name, ": found an image of ", width, " x ", height,
                        " pixels, expected sides of which none is ", kMostRatio,
                        " times as long as the other");
  return ImageSize{static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
}

/// The bytes after a PNM header: magic, width, height, largest value, one white space; comments may
/// come between them.
static uint64_t pnmBytes(std::string_view content) {
  size_t at = 2;
  for (int number = 0; number < 3; ++number) {
    for (; at < content.size() && (content[at] < '0' || content[at] > '9'); ++at)
      if (content[at] == '#')
        at = std::min(content.find('\n', at), content.size() - 1);
    while (at < content.size() && content[at] >= '0' && content[at] <= '9')
      ++at;
  }
  return content.size() - std::min(at + 1, content.size());
}

/// The decoder takes what a JPEG or a PNM lacks at the end for zeros or for any bytes.
static bool isCut(std::string_view content, const ImageSize &size) {
  if (content.starts_with("\xff\xd8")) {
    const size_t lastScan = content.rfind("\xff\xda");
    return lastScan == std::string_view::npos ||
           content.find("\xff\xd9", lastScan) == std::string_view::npos;
  }
  if (content.starts_with("P5") || content.starts_with("P6"))
    return pnmBytes(content) < size.pixels() * (content[1] == '5' ? 1 : 3);
  return false;
}

Result<Image> decodeImage(std::string_view content, const std::string &name) {
  MOERT_ASSIGN_OR_RETURN(const ImageSize size, readImageSize(content, name));
  if (isCut(content, size))
    return invalidInput(name, ": found ", content.size(), " bytes of an image of ", size.width,
                        " x ", size.height,
                        " pixels, which end before it does; expected the "
                        "whole file");
  int width = 0, height = 0, channels = 0;
  const std::unique_ptr<stbi_uc, decltype(&std::free)> pixels(
      stbi_load_from_memory(bytesOf(content), static_cast<int>(content.size()), &width, &height,
                            &channels, 3),
      &std::free);
  if (!pixels)
    return invalidInput(name, ": found an image of ", size.width, " x ", size.height,
                        " pixels that cannot be read (", stbi_failure_reason(), "), ", kExpected);
  if (uint32_t(width) != size.width || uint32_t(height) != size.height)
    return invalidInput(name, ": found an image of ", width, " x ", height, " pixels, expected ",
                        size.width, " x ", size.height, " as its header says");
  return Image{size, {pixels.get(), pixels.get() + uint64_t(width) * uint64_t(height) * 3}};
}

} // namespace moert
