// The schedule: a straight list of instructions for one step of a batch of tokens. The compiler's
// last pass produces it, the artifact carries it, the engine executes it; nothing else determines
// what the model computes. A model is a list of named programs.
//
// Memory. A program's buffers live in one arena. Everything is counted per token: with a batch of
// at most T tokens, buffer b occupies [offset * T, (offset + bytesPerToken) * T) of the arena, row
// after row, so that one plan serves every chunk size. A token has one row, an image several.
// Buffers whose lifetimes do not overlap may share bytes; plan-memory assigns the offsets, and the
// reader checks every access against the buffer's size.
//
// Instruction.h declares the instructions.
#pragma once

#include "runtime/format/Instruction.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

enum class BufferKind : uint8_t {
  kF32 = 0,
  kI32 = 1,
  kQuantized = 2, // int8 codes, then f32 scales, then i32 sums of codes, per activation group.
  kHadamard = 3,  // The same of the row's Hadamard transform (runtime/exec/Hadamard.h).
};
constexpr BufferKind kLastBufferKind = BufferKind::kHadamard;

constexpr bool isQuantized(BufferKind kind) {
  return kind == BufferKind::kQuantized || kind == BufferKind::kHadamard;
}

struct Buffer {
  BufferKind kind = BufferKind::kF32;
  uint32_t width = 0;         // Elements of a row.
  uint32_t group = 0;         // Activation group where quantized, 0 otherwise.
  uint64_t offset = 0;        // Bytes per token, a multiple of kBufferAlignment.
  uint64_t bytesPerToken = 0; // A multiple of bytesPerRow().

  uint64_t bytesPerRow() const;
  /// That a token has.
  uint32_t rows() const { return uint32_t(bytesPerToken / bytesPerRow()); }
  bool operator==(const Buffer &) const = default;
};

constexpr uint64_t kBufferAlignment = 64;
constexpr uint64_t kMaxRowsPerToken = 1 << 20;

/// Bytes of one row, rounded up to kBufferAlignment. A quantized row of width w and group g has
/// p = w rounded up to g codes, then p/g scales, then p/g sums, each part from a multiple of 64
/// bytes.
uint64_t bufferBytesPerRow(BufferKind kind, uint32_t width, uint32_t group);
inline uint64_t Buffer::bytesPerRow() const {
  return bufferBytesPerRow(kind, width, group);
}

/// The functions that a model consists of: "decode" and "prefill" of a decoder, in any order, with
/// "encode" if it attends to the output of an encoder; or "classify" alone.
namespace programs {
constexpr std::string_view kDecode = "decode";     // A step of one token per sequence, to logits.
constexpr std::string_view kPrefill = "prefill";   // A chunk of a prompt, to logits.
constexpr std::string_view kEncode = "encode";     // The whole input, to the keys and values that
                                                   // the decoder attends to. Has no head.
constexpr std::string_view kClassify = "classify"; // The whole input, to the logits of classes.
} // namespace programs

struct Program {
  std::string name; // One of `programs`.
  uint64_t arenaBytesPerToken = 0;
  std::vector<Buffer> buffers;
  std::vector<Instruction> instructions;
  std::vector<int32_t> layers; // Parallel to instructions: the model's layer, kNone outside any.
  bool operator==(const Program &) const = default;
};

/// The program of that name; null: the model has none.
const Program *findProgram(std::span<const Program> all, std::string_view name);

} // namespace moert
