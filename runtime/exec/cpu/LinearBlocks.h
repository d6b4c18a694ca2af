// Decodes the blocks of ggml's types (BlockValues.h) for the 16 outputs of a panel at a time: byte
// b of the outputs' blocks is 16 adjacent bytes. Included by LinearFloat.h.
#pragma once

#include "runtime/format/BlockValues.h"
#include "runtime/format/WeightLayout.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace moert {
namespace {

/// Inputs that are decoded together: a part of a block, or a whole one.
constexpr uint32_t kPartInputs = 32;
constexpr uint32_t kMaxBlockBytes = blockOf(WeightKind::kQ6K).bytes * kPanelRows;

inline PanelBytes bytesAt(const std::byte *block, uint32_t byte) {
  return loadBytes(block + byte * kPanelRows);
}
inline Lanes halfAt(const std::byte *block, uint32_t byte) {
  return widenF16(bytesAt(block, byte), bytesAt(block, byte + 1));
}

/// Where values go: [kPartInputs][kPanelRows].
inline void put(float *out, uint32_t input, Lanes values) {
  store(out + input * kPanelRows, values);
}

/// Calls apply(input, code) with the codes of 4 bits of 32 inputs in the 16 bytes from `first`.
template <typename Apply>
inline void eachCode4(const std::byte *block, uint32_t first, Apply apply) {
  for (uint32_t i = 0; i < 16; ++i) {
    const PanelBytes both = bytesAt(block, first + i);
    apply(i, field(both, 0, 15));
    apply(i + 16, field(both, 4, 15));
  }
}

/// 16 times bit `input` of the 32 in the four bytes from `first`.
inline PanelBytes fifthBit(const std::byte *block, uint32_t first, uint32_t input) {
  return raised(field(bytesAt(block, first + input / 8), input % 8, 1), 4);
}

// Each: the values of part `part` of a block.

void decodeQ4x0(const std::byte *block, uint32_t, float *out) {
  const Lanes d = halfAt(block, 0);
  eachCode4(block, 2, [&](uint32_t i, PanelBytes code) {
    put(out, i, multiply(d, toFloats(minus(code, 8))));
  });
}

void decodeQ4x1(const std::byte *block, uint32_t, float *out) {
  const Lanes d = halfAt(block, 0), m = halfAt(block, 2);
  eachCode4(block, 4, [&](uint32_t i, PanelBytes code) { put(out, i, fma(d, toFloats(code), m)); });
}

void decodeQ5x0(const std::byte *block, uint32_t, float *out) {
  const Lanes d = halfAt(block, 0);
  eachCode4(block, 6, [&](uint32_t i, PanelBytes code) {
    put(out, i, multiply(d, toFloats(minus(either(code, fifthBit(block, 2, i)), 16))));
  });
}

void decodeQ5x1(const std::byte *block, uint32_t, float *out) {
  const Lanes d = halfAt(block, 0), m = halfAt(block, 2);
  eachCode4(block, 8, [&](uint32_t i, PanelBytes code) {
    put(out, i, fma(d, toFloats(either(code, fifthBit(block, 4, i))), m));
  });
}

void decodeQ8x0(const std::byte *block, uint32_t, float *out) {
  const Lanes d = halfAt(block, 0);
  for (uint32_t i = 0; i < kPartInputs; ++i)
    put(out, i, multiply(d, toFloats(bytesAt(block, 2 + i))));
}

void decodeQ2K(const std::byte *block, uint32_t part, float *out) {
  const Lanes d = halfAt(block, 80), m = halfAt(block, 82);
  for (uint32_t half = 0; half < 2; ++half) {
    const PanelBytes scales = bytesAt(block, 2 * part + half);
    const Lanes scale = multiply(d, toFloats(field(scales, 0, 15)));
    const Lanes least = negate(multiply(m, toFloats(field(scales, 4, 15))));
    for (uint32_t l = 16 * half; l < 16 * half + 16; ++l) {
      const PanelBytes codes = bytesAt(block, 16 + 32 * (part / 4) + l);
      put(out, l, fma(scale, toFloats(field(codes, 2 * (part % 4), 3)), least));
    }
  }
}

void decodeQ3K(const std::byte *block, uint32_t part, float *out) {
  const Lanes d = halfAt(block, 108);
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t j = 2 * part + half;
    const PanelBytes low = field(bytesAt(block, 96 + j % 8), 4 * (j / 8), 15);
    const PanelBytes high = raised(field(bytesAt(block, 104 + j % 4), 2 * (j / 4), 3), 4);
    const Lanes scale = multiply(d, toFloats(minus(either(low, high), 32)));
    for (uint32_t l = 16 * half; l < 16 * half + 16; ++l) {
      const PanelBytes codes = field(bytesAt(block, 32 + 32 * (part / 4) + l), 2 * (part % 4), 3);
      const PanelBytes third = raised(field(bytesAt(block, l), part, 1), 2);
      put(out, l, multiply(scale, toFloats(minus(either(codes, third), 4))));
    }
  }
}

/// The factor of the codes of a part of q4_k or q5_k, and what is added to the product.
struct ScaleAndLeast {
  Lanes scale, least;
};
inline ScaleAndLeast scaleAndLeast(const std::byte *block, uint32_t part) {
  const PanelBytes first = bytesAt(block, 4 + part % 4), second = bytesAt(block, 8 + part % 4);
  PanelBytes scale = field(first, 0, 63), least = field(second, 0, 63);
  if (part >= 4) {
    const PanelBytes both = bytesAt(block, 8 + part);
    scale = either(field(both, 0, 15), raised(field(first, 6, 3), 4));
    least = either(field(both, 4, 15), raised(field(second, 6, 3), 4));
  }
  return {multiply(halfAt(block, 0), toFloats(scale)),
          negate(multiply(halfAt(block, 2), toFloats(least)))};
}

void decodeQ4K(const std::byte *block, uint32_t part, float *out) {
  const ScaleAndLeast by = scaleAndLeast(block, part);
  for (uint32_t l = 0; l < kPartInputs; ++l) {
    const PanelBytes code = field(bytesAt(block, 16 + 32 * (part / 2) + l), 4 * (part % 2), 15);
    put(out, l, fma(by.scale, toFloats(code), by.least));
  }
}

void decodeQ5K(const std::byte *block, uint32_t part, float *out) {
  const ScaleAndLeast by = scaleAndLeast(block, part);
  for (uint32_t l = 0; l < kPartInputs; ++l) {
    const PanelBytes code = field(bytesAt(block, 48 + 32 * (part / 2) + l), 4 * (part % 2), 15);
    const PanelBytes fifth = raised(field(bytesAt(block, 16 + l), part, 1), 4);
    put(out, l, fma(by.scale, toFloats(either(code, fifth)), by.least));
  }
}

void decodeQ6K(const std::byte *block, uint32_t part, float *out) {
  const Lanes d = halfAt(block, 208);
  const uint32_t h = part / 4, s = part % 4;
  for (uint32_t half = 0; half < 2; ++half) {
    const Lanes scale = multiply(d, toFloats(bytesAt(block, 192 + 2 * part + half)));
    for (uint32_t l = 16 * half; l < 16 * half + 16; ++l) {
      const PanelBytes low = field(bytesAt(block, 64 * h + 32 * (s % 2) + l), 4 * (s / 2), 15);
      const PanelBytes high = raised(field(bytesAt(block, 128 + 32 * h + l), 2 * s, 3), 4);
      put(out, l, multiply(scale, toFloats(minus(either(low, high), 32))));
    }
  }
}

inline PanelBytes iq4Levels() {
  static constexpr auto kLevels = [] {
    std::array<int8_t, 16> levels = {};
    for (uint32_t code = 0; code < levels.size(); ++code)
      levels[code] = blocks::iq4Level(code);
    return levels;
  }();
  return loadBytes(reinterpret_cast<const std::byte *>(kLevels.data()));
}

void decodeIq4Nl(const std::byte *block, uint32_t, float *out) {
  const Lanes d = halfAt(block, 0);
  const PanelBytes levels = iq4Levels();
  eachCode4(block, 2, [&](uint32_t i, PanelBytes code) {
    put(out, i, multiply(d, toFloats(lookUp(levels, code))));
  });
}

void decodeIq4Xs(const std::byte *block, uint32_t part, float *out) {
  const PanelBytes low = field(bytesAt(block, 4 + part / 2), 4 * (part % 2), 15);
  const PanelBytes high = raised(field(bytesAt(block, 2 + part / 4), 2 * (part % 4), 3), 4);
  const Lanes scale = multiply(halfAt(block, 0), toFloats(minus(either(low, high), 32)));
  const PanelBytes levels = iq4Levels();
  eachCode4(block, 8 + 16 * part, [&](uint32_t i, PanelBytes code) {
    put(out, i, multiply(scale, toFloats(lookUp(levels, code))));
  });
}

using DecodePart = void (*)(const std::byte *block, uint32_t part, float *out);

/// The kind has blocks.
inline DecodePart decoderOf(WeightKind kind) {
  constexpr DecodePart kDecoders[] = {decodeQ4x0, decodeQ4x1, decodeQ5x0,  decodeQ5x1,
                                      decodeQ8x0, decodeQ2K,  decodeQ3K,   decodeQ4K,
                                      decodeQ5K,  decodeQ6K,  decodeIq4Nl, decodeIq4Xs};
  return kDecoders[static_cast<uint8_t>(kind) - static_cast<uint8_t>(WeightKind::kQ4x0)];
}

} // namespace
} // namespace moert
