// The header of a GGUF file: its keys, and its tensors with their types, shapes and byte ranges.
// Versions 2 and 3, little-endian. Source: ggml, docs/gguf.md, and llama.cpp's reader, whose
// checks these are: tensors follow each other in the order of the header, each rounded up to the
// alignment.
//
// Not here: what the keys mean, files in several parts (GgufCheckpoint.h), and the data.
#pragma once

#include "compiler/import/StoredTensor.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace moec {

struct GgufHeader {
  /// An object of all keys. A 32-bit float is the number with the fewest digits that is read as
  /// the same float: what the config had that the file was made from.
  nlohmann::json keys = nlohmann::json::object();
  /// Shapes in C order, the row last: the reverse of the file's.
  ShardHeader shard;
};

/// Fills `out` from a file offset.
using ReadBytes = std::function<moert::Status(uint64_t offset, std::span<std::byte> out)>;

/// Reads and checks a header; fileName is for messages. Needs memory in proportion to what the
/// file really holds, whatever lengths it states.
moert::Result<GgufHeader> parseGgufHeader(const std::string &fileName, const ReadBytes &read,
                                          uint64_t fileSize);

} // namespace moec
