// Image files as pixels: PNG, JPEG and PNM (binary PPM and PGM).
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

struct ImageSize {
  uint32_t width = 0, height = 0;

  uint64_t pixels() const { return uint64_t(width) * height; }
};

/// Pixels of an image, bytes of a file, and how much longer one side may be than the other.
constexpr uint64_t kMostPixels = 1 << 26, kMostImageBytes = 1 << 28, kMostRatio = 100;

/// What decoding takes at most of memory for a pixel, beside the file: coefficients and samples of
/// a progressive JPEG, or a PNG with four channels of 16 bits before and after it is unpacked.
constexpr uint64_t kDecodingBytes = 32;

/// Three bytes per pixel, row by row. Grey is three equal ones, transparency is left out, and of 16
/// bits the upper 8 remain.
struct Image {
  ImageSize size;
  std::vector<uint8_t> rgb;
};

/// From the beginning of the file `content`; `name` is for messages.
Result<ImageSize> readImageSize(std::string_view content, const std::string &name);
Result<Image> decodeImage(std::string_view content, const std::string &name);

} // namespace moert
