// The model families that are read from GGUF files, as tables: which keys are which of config.json,
// and which tensors are which of the published checkpoint. A converter to GGUF permutes, joins and
// splits tensors; LineOrder and RowView::Change say what it did.
// Sources: llama.cpp, convert_hf_to_gguf.py and gguf-py/gguf/constants.py.
#pragma once

#include "compiler/import/codecs/RowView.h"

#include <span>
#include <string_view>

namespace moec {

/// A key after the architecture's name and a dot, and that of config.json.
struct GgufKey {
  std::string_view gguf, config;
  bool isRequired = true; // Unless the family's constants have the key of config.json.
};

/// A number that an architecture computes with and no key of config.json says: a file that has the
/// key has one from `least` to `most`. Of a flag, 0 or 1.
struct GgufFixedKey {
  std::string_view architecture; // Empty: each whose family has no row of the key.
  std::string_view gguf;
  double least, most;
};

/// A flag of config.json that is set where the first layer has a tensor.
struct GgufFlag {
  std::string_view tensor, config;
};

/// How the published tensor's rows (or columns) lie in the file's.
enum class LineOrder {
  kSame,
  kStacked,      // The rows of `tensor`, then those of `second`.
  kInterleaved,  // A row of `tensor`, then one of `second`, and so on. Of vectors, elements.
  kRopePairs,    // Per head, the pair (i, i + half of the head) is neighbours.
  kLatent,       // Per head, the columns of `tensor`, then the rows of `second`.
  kKeyHeads,     // Per key head, its query, key and values of `tensor`, then gates of `second`.
  kTiledHeads,   // The last rows are those of value heads: head v has key head v % key heads
  kTiledColumns, // instead of v / (heads per key head). Or columns.
  kVector,       // A vector, whatever its dimensions.
  kTaps,         // The taps of each channel, which has a dimension of its own.
};

/// Names of a layer's tensors are those after "blk.N." and "model.layers.N.".
struct GgufTensorName {
  std::string_view tensor, published;
  LineOrder order = LineOrder::kSame;
  std::string_view second = {};
  bool isTransposed = false; // Published as [inputs, outputs].
  RowView::Change change = RowView::Change::kNone;
};

/// Keys and tensors of a family besides the common ones, which its own rows replace.
struct GgufFamily {
  std::string_view architecture;
  std::string_view modelType; // In config.json.
  std::span<const GgufKey> keys;
  std::span<const GgufTensorName> tensors;
  /// Keys of config.json that no key of the file gives, as JSON.
  std::string_view constants = "{}";
  std::span<const GgufFlag> flags = {};
  /// In layer_types, layers that keep no keys and values; empty: all layers have attention.
  std::string_view keylessLayer = {};
  /// What the published names begin with instead of "model.".
  std::string_view prefix = "model.";
};

std::span<const GgufFamily> ggufFamilies();
std::span<const GgufKey> commonGgufKeys();
std::span<const GgufFixedKey> fixedGgufKeys();
std::span<const GgufTensorName> commonGgufTensors();
/// Tensors outside of layers, by full names.
std::span<const GgufTensorName> outerGgufTensors();

} // namespace moec
