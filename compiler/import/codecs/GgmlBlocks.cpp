#include "compiler/import/codecs/GgmlBlocks.h"

#include "compiler/import/codecs/GgmlCodebooks.h"
#include "runtime/base/HalfFloat.h"
#include "runtime/format/BlockValues.h"

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>

namespace moec {

namespace {

using namespace moert::blocks;
using moert::bf16ToF32;
using moert::e2m1ToF32;
using moert::e8m0ToF32;

/// The first byte of a block, or of a part of one.
using Bytes = const uint8_t *;

/// The sign of element j of 8 by 7 bits: the eighth bit makes their number even.
constexpr float sign7(uint32_t signs, uint32_t j) {
  const uint32_t all = signs | (static_cast<uint32_t>(std::popcount(signs & 127u)) & 1u) << 7;
  return bit(all, j) ? -1.0f : 1.0f;
}

constexpr float sign8(uint32_t signs, uint32_t j) {
  return bit(signs, j) ? -1.0f : 1.0f;
}

// Each: the value of element i of the block at b. BlockValues.h has those that records keep.

float iq2Xxs(Bytes b, uint32_t i) {
  const uint32_t g = i / 32, k = i / 8;
  const uint32_t word = u32(b + 6 + 8 * g);
  return half(b) * (0.5f + real(word >> 28)) / 4 * iq2XxsGrid()[b[2 + 8 * g + k % 4]][i % 8] *
         sign7(word >> 7 * (k % 4) & 127u, i % 8);
}

float iq2Xs(Bytes b, uint32_t i) {
  const uint32_t k = i / 8, v = u16(b + 2 + 2 * k);
  return half(b) * (0.5f + real(nibble(b[66 + k / 4], k / 2 % 2))) / 4 *
         iq2XsGrid()[v & 511u][i % 8] * sign7(v >> 9, i % 8);
}

float iq2S(Bytes b, uint32_t i) {
  const uint32_t k = i / 8;
  const uint32_t entry = b[2 + k] + 256 * (b[66 + k / 4] >> 2 * (k % 4) & 3u);
  return half(b) * (0.5f + real(nibble(b[74 + k / 4], k / 2 % 2))) / 4 * iq2SGrid()[entry][i % 8] *
         sign8(b[34 + k], i % 8);
}

float iq3Xxs(Bytes b, uint32_t i) {
  const uint32_t k = i / 8, word = u32(b + 66 + 4 * (i / 32));
  return half(b) * (0.5f + real(word >> 28)) / 2 * iq3XxsGrid()[b[2 + i / 4]][i % 4] *
         sign7(word >> 7 * (k % 4) & 127u, i % 8);
}

float iq3S(Bytes b, uint32_t i) {
  const uint32_t g = i / 32;
  const uint32_t entry = b[2 + i / 4] + 256 * bit(b[66 + g], i / 4 % 8);
  return half(b) * (1 + 2 * real(nibble(b[106 + g / 2], g % 2))) * iq3SGrid()[entry][i % 4] *
         sign8(b[74 + i / 8], i % 8);
}

float iq1S(Bytes b, uint32_t i) {
  const uint32_t k = i / 8, q = u16(b + 34 + 2 * (i / 32));
  const uint32_t entry = b[2 + k] + 256 * (q >> 3 * (k % 4) & 7u);
  return half(b) * (2 * real(q >> 12 & 7u) + 1) *
         (iq1SGrid()[entry][i % 8] + (bit(q, 15) ? -0.125f : 0.125f));
}

float iq1M(Bytes b, uint32_t i) {
  const auto c = [&](uint32_t j) { return u16(b + 48 + 2 * j); };
  const uint32_t d = c(0) >> 12 | c(1) >> 12 << 4 | c(2) >> 12 << 8 | c(3) >> 12 << 12;
  const uint32_t k = i / 8, j = i / 16, q = nibble(b[32 + k / 2], k % 2);
  return moert::f16ToF32(static_cast<uint16_t>(d)) * (2 * real(c(j / 4) >> 3 * (j % 4) & 7u) + 1) *
         (iq1SGrid()[b[k] + 256 * (q & 7u)][i % 8] + (q & 8u ? -0.125f : 0.125f));
}

/// Five digits of base 3 in a byte, the first one the most significant, as a fraction of 256.
float tq1x0(Bytes b, uint32_t i) {
  constexpr std::array<uint8_t, 5> kPowers = {1, 3, 9, 27, 81};
  const uint32_t digit = i < 160 ? i / 32 : i < 240 ? (i - 160) / 16 : (i - 240) / 4;
  const uint32_t byte = i < 160 ? i % 32 : i < 240 ? 32 + i % 16 : 48 + i % 4;
  const uint32_t rest = b[byte] * kPowers[digit] & 255u;
  return half(b + 52) * real((rest * 3 >> 8) - 1);
}

float tq2x0(Bytes b, uint32_t i) {
  return half(b + 64) * real(code2(b, i) - 1);
}

float mxfp4(Bytes b, uint32_t i) {
  return e8m0ToF32(b[0]) * e2m1ToF32(static_cast<uint8_t>(code4(b + 1, i)));
}

float q1x0(Bytes b, uint32_t i) {
  return bit(b[2 + i / 8], i % 8) ? half(b) : -half(b);
}

float q2x0(Bytes b, uint32_t i) {
  return half(b) * real((b[2 + i / 4] >> 2 * (i % 4) & 3u) - 1);
}

float f32(Bytes b, uint32_t) {
  return std::bit_cast<float>(u32(b));
}

float f16(Bytes b, uint32_t) {
  return half(b);
}

float bf16(Bytes b, uint32_t) {
  return bf16ToF32(static_cast<uint16_t>(u16(b)));
}

template <float (*value)(Bytes, uint32_t), uint32_t elements, uint32_t bytes>
void decode(const std::byte *blocks, size_t count, float *out) {
  std::array<uint8_t, bytes> block; // A copy, which `out` cannot overlap.
  for (size_t n = 0; n < count; ++n, blocks += bytes, out += elements) {
    std::memcpy(block.data(), blocks, bytes);
    for (uint32_t i = 0; i < elements; ++i)
      out[i] = value(block.data(), i);
  }
}

struct Decoder {
  TensorType type;
  uint32_t bytes;
  void (*decode)(const std::byte *blocks, size_t count, float *out);
};

template <float (*value)(Bytes, uint32_t), uint32_t elements, uint32_t bytes>
constexpr Decoder decoder(TensorType type) {
  return {type, bytes, decode<value, elements, bytes>};
}

constexpr std::array kDecoders = {
    decoder<f32, 1, 4>(TensorType::kF32),
    decoder<f16, 1, 2>(TensorType::kF16),
    decoder<bf16, 1, 2>(TensorType::kBf16),
    decoder<q4x0<Bytes>, 32, 18>(TensorType::kQ4x0),
    decoder<q4x1<Bytes>, 32, 20>(TensorType::kQ4x1),
    decoder<q5x0<Bytes>, 32, 22>(TensorType::kQ5x0),
    decoder<q5x1<Bytes>, 32, 24>(TensorType::kQ5x1),
    decoder<q8x0<Bytes>, 32, 34>(TensorType::kQ8x0),
    decoder<q2K<Bytes>, 256, 84>(TensorType::kQ2K),
    decoder<q3K<Bytes>, 256, 110>(TensorType::kQ3K),
    decoder<q4K<Bytes>, 256, 144>(TensorType::kQ4K),
    decoder<q5K<Bytes>, 256, 176>(TensorType::kQ5K),
    decoder<q6K<Bytes>, 256, 210>(TensorType::kQ6K),
    decoder<iq2Xxs, 256, 66>(TensorType::kIq2Xxs),
    decoder<iq2Xs, 256, 74>(TensorType::kIq2Xs),
    decoder<iq2S, 256, 82>(TensorType::kIq2S),
    decoder<iq3Xxs, 256, 98>(TensorType::kIq3Xxs),
    decoder<iq3S, 256, 110>(TensorType::kIq3S),
    decoder<iq1S, 256, 50>(TensorType::kIq1S),
    decoder<iq1M, 256, 56>(TensorType::kIq1M),
    decoder<iq4Nl<Bytes>, 32, 18>(TensorType::kIq4Nl),
    decoder<iq4Xs<Bytes>, 256, 136>(TensorType::kIq4Xs),
    decoder<tq1x0, 256, 54>(TensorType::kTq1x0),
    decoder<tq2x0, 256, 66>(TensorType::kTq2x0),
    decoder<mxfp4, 32, 17>(TensorType::kMxfp4),
    decoder<q1x0, 128, 18>(TensorType::kQ1x0),
    decoder<q2x0, 64, 18>(TensorType::kQ2x0),
};

const Decoder *findDecoder(TensorType type) {
  for (const Decoder &each : kDecoders)
    if (each.type == type)
      return &each;
  return nullptr;
}

} // namespace

bool canDecodeBlocks(TensorType type) {
  return findDecoder(type);
}

void decodeBlocks(TensorType type, std::span<const std::byte> blocks, std::span<float> out) {
  const Decoder *const decoder = findDecoder(type);
  assert(decoder && out.size() % tensorBlock(type).elements == 0);
  const size_t count = out.size() / tensorBlock(type).elements;
  assert(blocks.size() == count * decoder->bytes);
  decoder->decode(blocks.data(), count, out.data());
}

std::optional<StoredType> keptType(TensorType type) {
  switch (type) {
  case TensorType::kQ4x0:
    return StoredType::kQ4x0;
  case TensorType::kQ4x1:
    return StoredType::kQ4x1;
  case TensorType::kQ5x0:
    return StoredType::kQ5x0;
  case TensorType::kQ5x1:
    return StoredType::kQ5x1;
  case TensorType::kQ8x0:
    return StoredType::kQ8x0;
  case TensorType::kQ2K:
    return StoredType::kQ2K;
  case TensorType::kQ3K:
    return StoredType::kQ3K;
  case TensorType::kQ4K:
    return StoredType::kQ4K;
  case TensorType::kQ5K:
    return StoredType::kQ5K;
  case TensorType::kQ6K:
    return StoredType::kQ6K;
  case TensorType::kIq4Nl:
    return StoredType::kIq4Nl;
  case TensorType::kIq4Xs:
    return StoredType::kIq4Xs;
  case TensorType::kMxfp4:
    return StoredType::kMxfp4;
  default:
    return std::nullopt;
  }
}

void splitMxfp4Blocks(std::span<const std::byte> blocks, std::span<std::byte> codes,
                      std::span<std::byte> scales) {
  constexpr size_t kBytes = 17, kHalf = 8;
  assert(blocks.size() == scales.size() * kBytes && codes.size() == scales.size() * 2 * kHalf);
  for (size_t n = 0; n < scales.size(); ++n) {
    const std::byte *const block = blocks.data() + n * kBytes;
    std::byte *const to = codes.data() + n * 2 * kHalf;
    scales[n] = block[0];
    for (size_t j = 0; j < kHalf; ++j) {
      const std::byte first = block[1 + 2 * j], second = block[2 + 2 * j];
      to[j] = (first & std::byte{15}) | second << 4;
      to[kHalf + j] = first >> 4 | (second & std::byte{0xf0});
    }
  }
}

} // namespace moec
