#include "runtime/images/PrepareImage.h"

#include <algorithm>
#include <cmath>

namespace moert {

namespace {

/// Bits after the point of a coefficient: 8 for the value and 2 for overshoot are left of 32.
constexpr int kFractionBits = 22;

double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1)
    return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2)
    return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

/// The inputs [first, first + factors.size()) of one output.
struct Taps {
  uint32_t first;
  std::vector<int32_t> factors;
};

Taps tapsOf(uint32_t output, uint32_t from, uint32_t to) {
  const double scale = double(from) / to, filterScale = std::max(scale, 1.0);
  const double support = 2 * filterScale, center = (output + 0.5) * scale;
  const auto first = static_cast<int64_t>(std::max(center - support + 0.5, 0.0));
  const double last = center + support + 0.5; // Cut off, as Pillow does.
  const auto end = std::min<int64_t>(static_cast<int64_t>(last), from);
  std::vector<double> weights;
  double sum = 0;
  for (int64_t i = first; i < end; ++i)
    sum += weights.emplace_back(cubic((double(i) - center + 0.5) * (1 / filterScale)));
  Taps taps = {static_cast<uint32_t>(first), {}};
  for (const double weight : weights) {
    const double scaled = weight * (1 / sum) * (1 << kFractionBits);
    taps.factors.push_back(static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
  }
  return taps;
}

/// `lines` lines of `from` pixels to lines of `to`; steps between lines and between pixels of a
/// line, in pixels.
struct Pass {
  uint32_t lines, from, to;
  uint64_t lineStep, pixelStep, outLineStep, outPixelStep;

  void run(const uint8_t *in, uint8_t *out) const {
    for (uint32_t x = 0; x < to; ++x) {
      const Taps taps = tapsOf(x, from, to);
      for (uint64_t line = 0; line < lines; ++line)
        for (uint64_t channel = 0; channel < 3; ++channel) {
          int32_t sum = 1 << (kFractionBits - 1);
          for (size_t i = 0; i < taps.factors.size(); ++i)
            sum += taps.factors[i] *
                   in[(line * lineStep + (taps.first + i) * pixelStep) * 3 + channel];
          out[(line * outLineStep + x * outPixelStep) * 3 + channel] =
              static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
        }
    }
  }
};

} // namespace

Image resized(const Image &image, const ImageSize &to) {
  const ImageSize &from = image.size;
  Image wide = {{to.width, from.height}, image.rgb};
  if (to.width != from.width) {
    wide.rgb.resize(uint64_t(to.width) * from.height * 3);
    Pass{from.height, from.width, to.width, from.width, 1, to.width, 1}.run(image.rgb.data(),
                                                                            wide.rgb.data());
  }
  if (to.height == from.height)
    return wide;
  Image result = {to, std::vector<uint8_t>(uint64_t(to.width) * to.height * 3)};
  Pass{to.width, from.height, to.height, 1, to.width, 1, to.width}.run(wide.rgb.data(),
                                                                       result.rgb.data());
  return result;
}

/// Half of `x`, rounded to the even neighbour, as Python rounds.
static uint32_t evenHalf(uint32_t x) {
  return x / 2 + (x % 4 == 3);
}

ImageSize sizeBeforeCut(const ImageSize &from, uint32_t side) {
  const uint32_t least = side > 32 ? static_cast<uint32_t>((256.0 / 224.0) * side) : side;
  const auto [narrow, wide] = std::minmax(from.width, from.height);
  const auto other = static_cast<uint32_t>(uint64_t(least) * wide / narrow);
  return from.height > from.width ? ImageSize{least, other} : ImageSize{other, least};
}

void prepareImage(const Image &image, uint32_t side, std::span<float> out) {
  constexpr float kMean[] = {0.485f, 0.456f, 0.406f}, kDeviation[] = {0.229f, 0.224f, 0.225f};
  const Image sized = resized(image, sizeBeforeCut(image.size, side));
  const uint32_t left = evenHalf(sized.size.width - side), top = evenHalf(sized.size.height - side);
  for (uint64_t channel = 0; channel < 3; ++channel)
    for (uint64_t y = 0; y < side; ++y)
      for (uint64_t x = 0; x < side; ++x) {
        const uint8_t value = sized.rgb[((top + y) * sized.size.width + left + x) * 3 + channel];
        out[(channel * side + y) * side + x] =
            (static_cast<float>(value) / 255.0f - kMean[channel]) / kDeviation[channel];
      }
}

} // namespace moert
