// Declarations of the instructions that work on images. A token is an image; it has one row per
// patch, row by row of a square grid, and their number changes within the program.
#pragma once

#include "runtime/format/InstructionFields.h"

namespace moert {

/// dst[channels * patch * patch]: the pixels of a row's patch, channel by channel, each row by row.
/// The image has `side` * `side` pixels. From here on a token has (side / patch)^2 rows.
struct PatchesInstruction {
  int32_t dst;
  uint32_t channels, side, patch;

  static constexpr const char *kName = "patches";
  static constexpr StepPart kPart = StepPart::kEmbedding;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kNumber, "channels", i.channels);
    visit(FieldRole::kNumber, "side", i.side);
    visit(FieldRole::kNumber, "patch", i.patch);
  }
  bool operator==(const PatchesInstruction &) const = default;
};

/// Attention within windows of `window` * `window` rows of a grid of `side` * `side` (Swin, Liu et
/// al. 2021, arXiv 2103.14030), which begin at row and column `shift`, modulo `side`. A row attends
/// to the rows of its window, but not across the grid's edge. For a head, the score of a key at
/// (i, j) of the window for a query at (y, x) is
///   scale * (query . key) + bias[head][y - i + window - 1][x - j + window - 1]
struct AttendWindowsInstruction {
  int32_t query, key, value, dst, bias;
  uint32_t heads, side, window, shift;
  float scale;

  static constexpr const char *kName = "attend_windows";
  static constexpr StepPart kPart = StepPart::kAttention;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    visit(FieldRole::kRead, "query", i.query);
    visit(FieldRole::kRead, "key", i.key);
    visit(FieldRole::kRead, "value", i.value);
    visit(FieldRole::kWrite, "dst", i.dst);
    visit(FieldRole::kVector, "bias", i.bias);
    visit(FieldRole::kNumber, "heads", i.heads);
    visit(FieldRole::kNumber, "side", i.side);
    visit(FieldRole::kNumber, "window", i.window);
    visit(FieldRole::kNumber, "shift", i.shift);
    visit(FieldRole::kNumber, "scale", i.scale);
  }
  bool operator==(const AttendWindowsInstruction &) const = default;
};

/// dst[4w] at (y, x) of a grid of side / 2: the rows src[w] at (2y, 2x), (2y + 1, 2x), (2y, 2x + 1)
/// and (2y + 1, 2x + 1) of a grid of `side`, one after the other. From here on a token has a
/// quarter of the rows.
struct MergePatchesInstruction : RowOperands {
  uint32_t side;

  static constexpr const char *kName = "merge_patches";
  static constexpr StepPart kPart = StepPart::kDense;
  template <typename Self, typename Visit> static void describe(Self &i, Visit &&visit) {
    RowOperands::describe(i, visit);
    visit(FieldRole::kNumber, "side", i.side);
  }
  bool operator==(const MergePatchesInstruction &) const = default;
};

/// dst[w] = the mean of a token's rows of src[w]. From here on a token has one row.
struct MeanRowsInstruction : RowOperands {
  static constexpr const char *kName = "mean_rows";
  static constexpr StepPart kPart = StepPart::kSums;
};

} // namespace moert
