// The position of every number of a weight matrix, in the artifact and in memory: one layout for
// resident weights and records, made for the kernels (runtime/exec), so that nothing is repacked
// at load. docs/format.md, "Weights", is the same in prose.
//
// A matrix has `rows` outputs and `cols` inputs: y = W x.
//
// Panel layout, for every quantized or kept matrix (isKept()) and for other float matrices of 16
// rows and more. 16 outputs make a panel (the last one is padded with zero rows), and inputs run
// inside it:
//   float   [panel][input][16 outputs]
//   mxfp4   [panel][input / 8][16 outputs][4]    byte i holds inputs 2i (low half) and 2i + 1
//   int8    [panel][input / 4][16 outputs][4]    a byte is one code
//   int4    [panel][input / 8][16 outputs][4]    a byte holds input i (low half) and i + 4
//   int2    [panel][input / 16][16 outputs][4]   i, i + 4, i + 8, i + 12, low first
//   nl2, nl4                                     like int2 and int4
//   int1    [panel][input / 32][16 outputs][4]   i to i + 28 in the order of bitPlaceOf()
//   int3, int5, int6, nl3                        one plane after the other (planesOf())
//   int0                                         no bytes
// Each is a run of units of 64 bytes (bf16, f16: 32 bytes) for 16 outputs that vector
// instructions load without rearranging. Integer codes are offset binary, code = q + 2^(bits-1).
// The codes of a kind of several planes are its bits, highest first, in one region per plane, each
// from a multiple of kRegionAlignment (planesOf()).
// The codes are followed, at the next multiple of kRegionAlignment, by the scales, f16
// [panel][weight group][16 outputs], and these, where the format has offsets, by the offsets in the
// same shape. The value of a code is
//   w = scale * q + offset.
// Scales may have one byte each: then one bf16 per row, [panel][16 outputs], comes before them, and
// a group's scale is its byte, from -127 to 127, times the row's. With the kinds nl2, nl3 and nl4,
// q is a level that the code selects (CodeLevels.h). A slice that refines another holds lower bits
// of the same codes and neither scales nor offsets: docs/format.md, "Records", lists the
// combinations of slices and the value of each prefix. A slice beyond the first of a record that
// does not refine begins a separate copy. Inputs are padded to a multiple of the activation group
// with q = 0; the scale and the offset of a weight group that has real inputs apply to its padding
// too, where the activation is zero.
//
// A matrix with the Hadamard transform stores the transform of its rows, which is multiplied with
// the transform of its inputs (runtime/exec/Hadamard.h).
//
// MXFP4 (OCP Microscaling Formats 1.0) is a float kind, whose products take f32 activations: codes
// of E2M1, and as scales, in the same place, powers of two as E8M0, a byte each. Its groups are 32
// inputs and are never padded. Only experts have it.
//
// The kinds of blocks, q4_0 to iq4_xs, are float kinds of experts too: the blocks of ggml's types
// of these names (BlockValues.h), unchanged, in panel layout:
//   [panel][block of the row][byte of the block][16 outputs]
// A weight group is a block. There are no other bytes, and blocks may straddle pages.
//
// Row layout, for float matrices with fewer than 16 rows, vectors among them (1 x n): [row][input].
//
// No unit of other groups straddles a page: 16 * activationGroup * bits / 8 is a power of two that
// divides kRegionAlignment, and pages are multiples of that.
#pragma once

#include "runtime/base/Status.h"

#include <array>
#include <cstdint>
#include <span>

namespace moert {

enum class WeightKind : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kInt8 = 3,
  kInt4 = 4,
  kInt2 = 5,
  kInt1 = 6,  // Only as a refinement.
  kMxfp4 = 7, // Only in experts.
  kNl2 = 8,   // Non-linear codes (CodeLevels.h), laid out like int2.
  kNl4 = 9,   // Like int4.
  kInt0 = 10, // Only as a refinement: this slice holds nothing of the matrix.
  kInt3 = 11, // Several planes, like those below. Only in experts.
  kInt5 = 12,
  kInt6 = 13,
  kNl3 = 14, // Non-linear codes.
  // Blocks of ggml's types.
  kQ4x0 = 15,
  kQ4x1 = 16,
  kQ5x0 = 17,
  kQ5x1 = 18,
  kQ8x0 = 19,
  kQ2K = 20,
  kQ3K = 21,
  kQ4K = 22,
  kQ5K = 23,
  kQ6K = 24,
  kIq4Nl = 25,
  kIq4Xs = 26,
};
constexpr WeightKind kLastWeightKind = WeightKind::kIq4Xs;

/// The maximum number of slices of an expert, and of planes of a matrix.
constexpr uint32_t kMaxExpertSlices = 3;

constexpr uint32_t kPanelRows = 16;
constexpr uint64_t kRegionAlignment = 1024;

/// Inputs of an MXFP4 matrix that share a scale, and the bytes of their codes in a panel.
constexpr uint32_t kMxfp4Group = 32;
constexpr uint32_t kMxfp4GroupBytes = kMxfp4Group / 2 * kPanelRows;

/// Whether a code is the number of a level (CodeLevels.h).
constexpr bool hasLevels(WeightKind kind) {
  return kind == WeightKind::kNl2 || kind == WeightKind::kNl3 || kind == WeightKind::kNl4;
}

constexpr bool hasBlocks(WeightKind kind) {
  return kind >= WeightKind::kQ4x0;
}

/// Whether the kind is only kept from checkpoints that have it, in experts alone; nothing is
/// rounded to it.
constexpr bool isKept(WeightKind kind) {
  return kind == WeightKind::kMxfp4 || hasBlocks(kind);
}

/// The inputs of a block, its bytes, and those at which its one or two f16 begin, which scale all
/// of its values.
struct WeightBlock {
  uint32_t elements, bytes;
  std::array<uint32_t, 2> halves;
};

/// The kind has blocks.
constexpr WeightBlock blockOf(WeightKind kind) {
  constexpr WeightBlock kBlocks[] = {
      {32, 18, {0, 0}},   {32, 20, {0, 2}},       {32, 22, {0, 0}},       {32, 24, {0, 2}},
      {32, 34, {0, 0}},   {256, 84, {80, 82}},    {256, 110, {108, 108}}, {256, 144, {0, 2}},
      {256, 176, {0, 2}}, {256, 210, {208, 208}}, {32, 18, {0, 0}},       {256, 136, {0, 0}}};
  return kBlocks[static_cast<uint8_t>(kind) - static_cast<uint8_t>(WeightKind::kQ4x0)];
}

/// Whether elements are integers or levels, whose products take activations in int8. The others are
/// floats.
constexpr bool isQuantized(WeightKind kind) {
  return kind >= WeightKind::kInt8 && !isKept(kind);
}

/// Bits of one stored element, without scales and offsets.
constexpr uint32_t bitsOf(WeightKind kind) {
  constexpr uint32_t kBits[] = {32, 16, 16, 8, 4, 2, 1, 4, 2, 4, 0, 3, 5, 6,
                                3,  4,  4,  5, 5, 8, 2, 3, 4, 5, 6, 4, 4};
  return kBits[static_cast<uint8_t>(kind)];
}

/// The planes of codes that a matrix of this kind has in one slice, highest bits first: int2 and
/// int1 for int3, int2, int2 and int1 for int5, three of int2 for int6, nl2 and int1 for nl3; the
/// kind itself for all others.
std::span<const WeightKind> planesOf(WeightKind kind);

/// "f32", "f16", "bf16", "int8", "int4", "int2", "int1", "mxfp4", "nl2", "nl4", "int0", "int3",
/// "int5", "int6", "nl3", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k" to "q6_k", "iq4_nl",
/// "iq4_xs"
const char *nameOf(WeightKind kind);

/// Bit position, in the byte of input i, of the lowest bit of the code of input i + 4 * part.
constexpr uint32_t bitPlaceOf(WeightKind kind, uint32_t part) {
  constexpr uint32_t kInt1Places[] = {0, 1, 4, 5, 2, 3, 6, 7};
  return kind == WeightKind::kInt1 ? kInt1Places[part] : part * bitsOf(kind);
}

/// How the numbers of a matrix are stored. The groups count inputs; both are 0 for float kinds,
/// except that the group of MXFP4 is kMxfp4Group and that of blocks a block.
struct WeightFormat {
  WeightKind kind = WeightKind::kF32;
  uint32_t group = 0;           // Inputs that share a scale; a multiple of activationGroup.
  uint32_t activationGroup = 0; // Inputs whose activations share a scale: 16, 32 or 64.
  bool hasOffsets = false;
  bool refines = false;       // Low bits of the codes of the slice before it, without scales.
  bool hasByteScales = false; // Signed bytes, multiples of one bf16 per row.
  bool hasHadamard = false;   // Rows are transformed, and inputs have to be.

  bool operator==(const WeightFormat &) const = default;
};

/// The format of a float kind.
constexpr WeightFormat floatFormat(WeightKind kind) {
  const uint32_t group = kind == WeightKind::kMxfp4 ? kMxfp4Group
                         : hasBlocks(kind)          ? blockOf(kind).elements
                                                    : 0;
  return {kind, group, 0, false, false};
}

/// How the matrices of an expert are stored, in one of its slices. Both are quantized with one
/// activation group and with the Hadamard transform or without, or both have float kinds.
struct ExpertFormat {
  WeightFormat gateUp; // That of gate and that of up.
  WeightFormat down;

  ExpertFormat() = default;
  ExpertFormat(const WeightFormat &all) : gateUp(all), down(all) {}
  ExpertFormat(const WeightFormat &gateAndUp, const WeightFormat &ofDown)
      : gateUp(gateAndUp), down(ofDown) {}

  bool isQuantized() const { return moert::isQuantized(gateUp.kind); }
  uint32_t activationGroup() const { return gateUp.activationGroup; }
  bool refines() const { return gateUp.refines; }
  bool hasOneFormat() const { return gateUp == down; }
  bool operator==(const ExpertFormat &) const = default;
};

/// Bits of one weight of each matrix together: of gate, up and down, which have equally many.
constexpr uint32_t kExpertMatrices = 3;
uint32_t bitsOf(const ExpertFormat &format);

struct MatrixShape {
  uint32_t rows = 0;
  uint32_t cols = 0;

  bool operator==(const MatrixShape &) const = default;
};

/// Byte offsets inside a stored matrix, from its first byte.
struct MatrixLayout {
  bool isPanels = false;
  uint32_t panels = 0;       // 0 in row layout.
  uint32_t paddedCols = 0;   // cols, up to a multiple of activationGroup where quantized.
  uint32_t groupsPerRow = 0; // Weight groups along the inputs; 0 without scales and blocks.
  uint64_t codesBytes = 0;   // To the end of the last plane.
  std::array<uint64_t, kMaxExpertSlices> planeOffsets = {}; // Where each of planesOf() begins.
  uint64_t rowScalesOffset = 0;                             // 0 without byte scales.
  uint64_t scalesOffset = 0;                                // 0 without scales.
  uint64_t offsetsOffset = 0;                               // 0 without offsets.
  uint64_t bytes = 0; // Total; the next matrix starts at the next kRegionAlignment.
};

/// Bytes of a stored scale, and of an offset.
constexpr uint32_t scaleBytesOf(const WeightFormat &format) {
  return format.hasByteScales || format.kind == WeightKind::kMxfp4 ? 1 : 2;
}

/// Refuses combinations that the rules above exclude for matrices of every shape.
Status checkFormat(const WeightFormat &format);

/// The layout of a matrix. Refuses formats that the rules above exclude, zero sizes, and sizes that
/// do not fit in 2^48 bytes.
Result<MatrixLayout> layoutOf(const MatrixShape &shape, const WeightFormat &format);

/// Slices before the first one, beyond slice 0, that does not refine: it begins a separate copy of
/// the expert, and those before it are the low copy. 0: there is one copy.
uint16_t lowCopySlicesOf(std::span<const ExpertFormat> slices);

/// Whether slices of these formats, lowest first, store one matrix in one copy: one slice of any
/// kind but int1 and int0, or slices of 2+1, 2+2, 2+2+1, 2+2+2 or 2+2+4 bits, of which all but the
/// first refine; either may be followed by slices of int0. There is at least one slice. Messages
/// count slices from `first`.
Status checkMatrixSlices(std::span<const WeightFormat> slices, size_t first = 0);

/// Whether slices of these formats, lowest first, form one expert: one copy, or a low copy of
/// quantized slices and a separate copy of more bits. In each copy the slices of every matrix pass
/// checkMatrixSlices(), and no slice is empty.
Status checkSliceFormats(std::span<const ExpertFormat> slices);

} // namespace moert
