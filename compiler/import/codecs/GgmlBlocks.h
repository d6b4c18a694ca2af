// Rows in the types of ggml: blocks of codes with their scales. The formulas are those of ggml
// (ggml-quants.c, dequantize_row_*): products are exact in f32 and a sum rounds once, so that every
// order of the operations gives the same bits.
#pragma once

#include "compiler/import/StoredTensor.h"
#include "compiler/import/StoredType.h"

#include <cstddef>
#include <optional>
#include <span>

namespace moec {

/// True for the types that decodeBlocks() takes, F32, F16 and BF16 among them.
bool canDecodeBlocks(TensorType type);

/// The values of whole blocks: out.size() is a multiple of tensorBlock(type).elements.
/// blocks.size() == out.size() / elements * bits / 8.
void decodeBlocks(TensorType type, std::span<const std::byte> blocks, std::span<float> out);

/// The type in which records keep blocks of this one, MXFP4 among them.
std::optional<StoredType> keptType(TensorType type);

/// Rearranges a row's blocks of MXFP4, each a scale and the codes i and i + 16 in its byte i:
/// `codes` receives the codes in order, two a byte, low half first, `scales` one for each block.
void splitMxfp4Blocks(std::span<const std::byte> blocks, std::span<std::byte> codes,
                      std::span<std::byte> scales);

} // namespace moec
