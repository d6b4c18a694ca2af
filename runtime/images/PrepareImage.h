// An image as the input of a vision model, prepared as torchvision's evaluation transforms do with
// Pillow: to the bit up to the normalization.
#pragma once

#include "runtime/images/DecodeImage.h"

#include <cstdint>
#include <span>

namespace moert {

/// Bicubic with antialiasing (Keys 1981, a = -0.5), in Pillow's fixed-point arithmetic: rows first,
/// each pass rounded to 8 bits.
Image resized(const Image &image, const ImageSize &to);

/// The size that an image is brought to before its middle is cut out: the short side becomes
/// int(side * 256 / 224) pixels, or `side` if that is at most 32, as in the published evaluation.
ImageSize sizeBeforeCut(const ImageSize &from, uint32_t side);

/// The middle of side x side, each channel normalized with ImageNet's mean and standard deviation.
/// out: [3][side][side].
void prepareImage(const Image &image, uint32_t side, std::span<float> out);

} // namespace moert
