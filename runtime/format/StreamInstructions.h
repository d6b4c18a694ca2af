// Declarations of the instructions around several residual streams: a row of streams * w elements,
// stream after stream, in place of one residual row. The notation is Instruction.h's.
#pragma once

#include "runtime/format/InstructionFields.h"

namespace moert {

constexpr uint32_t kMaxStreams = 16;

/// dst[streams * w]: each stream is src[w].
struct RepeatRowInstruction : RowOperands {
  static constexpr const char *kName = "repeat_row";
  static constexpr StepPart kPart = StepPart::kSums;
};

/// dst[w] = the mean of the streams of src.
struct MeanStreamsInstruction : RowOperands {
  static constexpr const char *kName = "mean_streams";
  static constexpr StepPart kPart = StepPart::kSums;
};

/// The weights of hyper-connections (Xie et al. 2025, arXiv 2512.24880), from products src:
///   dst[m] = in = sigmoid(src * scale[0] + base) + epsilon, of m streams;
///   if src has (2 + m) * m elements, dst = in[m], out[m], C[m][m], each with its own scale of 3:
///     out = 2 * sigmoid(src * scale[1] + base)
///     C = softmax of each row of src * scale[2] + base, + epsilon; then columns are divided by
///     their sum + epsilon, and `iterations` - 1 times rows are, then columns.
struct StreamWeightsInstruction {
  int32_t src, dst, scale, base;
  uint32_t streams, iterations;
  float epsilon;

  static constexpr const char *kName = "stream_weights";
  static constexpr StepPart kPart = StepPart::kSums;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kVector, "scale", i.scale);
    visit(FieldRole::kVector, "base", i.base);
    visit(FieldRole::kNumber, "streams", i.streams);
    visit(FieldRole::kNumber, "iterations", i.iterations);
    visit(FieldRole::kNumber, "epsilon", i.epsilon);
  }
  bool operator==(const StreamWeightsInstruction &) const = default;
};

/// dst[w] = sum over the streams i of src of in[i] * src[i]; weights begin with in
/// (stream_weights).
struct MergeStreamsInstruction {
  int32_t src, weights, dst;

  static constexpr const char *kName = "merge_streams";
  static constexpr StepPart kPart = StepPart::kSums;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kRead, "weights", i.weights);
    visit(FieldRole::kWrite, "dst", i.dst);
  }
  bool operator==(const MergeStreamsInstruction &) const = default;
};

/// dst[j] = out[j] * branch + sum over the streams i of src of C[i][j] * src[i], for each stream j;
/// weights are in[m], out[m], C[m][m] (stream_weights).
struct UpdateStreamsInstruction {
  int32_t src, branch, weights, dst;

  static constexpr const char *kName = "update_streams";
  static constexpr StepPart kPart = StepPart::kSums;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "src", i.src);
    visit(FieldRole::kRead, "branch", i.branch);
    visit(FieldRole::kRead, "weights", i.weights);
    visit(FieldRole::kWrite, "dst", i.dst);
  }
  bool operator==(const UpdateStreamsInstruction &) const = default;
};

/// dst[i] = factor * the product of the streams i of a and of b, summed over their elements.
struct DotStreamsInstruction {
  int32_t a, b, dst;
  float factor;

  static constexpr const char *kName = "dot_streams";
  static constexpr StepPart kPart = StepPart::kSums;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "a", i.a);
    visit(FieldRole::kRead, "b", i.b);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kNumber, "factor", i.factor);
  }
  bool operator==(const DotStreamsInstruction &) const = default;
};

} // namespace moert
