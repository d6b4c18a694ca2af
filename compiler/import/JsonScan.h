// Reads untrusted JSON event by event: bounded nesting, no exceptions, and every error names the
// file. For files that may be large (a header of 100 MB); small ones are read with Config.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace moec {

enum class JsonEventKind {
  kNull,
  kBoolean,
  kUnsigned, // An integer in [0, 2^64).
  kNumber,   // Any other number.
  kString,
  kKey,
  kStartObject,
  kEndObject,
  kStartArray,
  kEndArray,
};

struct JsonEvent {
  JsonEventKind kind = JsonEventKind::kNull;
  uint64_t number = 0;         // Set for kUnsigned.
  std::string *text = nullptr; // Set for kString and kKey; may be moved from.
};

/// The found value, for messages: "an array", "the string \"x\"".
std::string describeEvent(const JsonEvent &event);

/// The text in quotes, with unprintable characters escaped, truncated if it is long: names in
/// untrusted files may hold any bytes.
std::string quoted(std::string_view text);

/// Receives the events. The scanner has checked the grammar: keys and ends occur only in valid
/// places.
class JsonEventHandler {
public:
  virtual ~JsonEventHandler() = default;
  /// An error ends the scan.
  virtual moert::Status handle(const JsonEvent &event) = 0;
};

/// Deeper than any valid file of a checkpoint nests.
inline constexpr size_t kJsonMaxDepth = 64;

/// Passes the events of `text` to the handler. The text must be one JSON value in UTF-8, surrounded
/// by nothing but white space. Errors name the file.
moert::Status scanJson(std::string_view fileName, std::string_view text, JsonEventHandler &handler);

/// The error for a file that could not be opened: bad input if no file has the name, otherwise a
/// system error.
moert::Status openError(const std::string &path, int errnoValue);

/// Reads a whole small file; an error if it is missing or larger than mostBytes.
moert::Result<std::string> readTextFile(const std::string &path, uint64_t mostBytes);

} // namespace moec
