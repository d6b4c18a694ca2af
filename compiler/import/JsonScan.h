// Reading untrusted JSON event by event: bounded nesting, no exception, every failure a Status that
// names the file. For files that may be large (a header of a hundred megabytes); small ones become
// a Config.
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
  kUnsigned, // An integer of [0, 2^64).
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
  uint64_t number = 0;         // Of kUnsigned.
  std::string *text = nullptr; // Of kString and kKey; may be moved from.
};

/// "an array", "the string \"x\"": what was found, for messages.
std::string describeEvent(const JsonEvent &event);

/// The text between quotes with everything unprintable escaped, cut off if it is long: names in
/// untrusted files may hold anything.
std::string quoted(std::string_view text);

/// What a reader does with the events. The scanner has checked the grammar: keys and ends come only
/// where they may.
class JsonEventHandler {
public:
  virtual ~JsonEventHandler() = default;
  /// An error ends the scan.
  virtual moert::Status handle(const JsonEvent &event) = 0;
};

/// No file that a checkpoint consists of nests as deep as this.
inline constexpr size_t kJsonMaxDepth = 64;

/// Feeds the events of text, which has to be one JSON value in UTF-8 with nothing but white space
/// around it. Errors name the file.
moert::Status scanJson(std::string_view fileName, std::string_view text, JsonEventHandler &handler);

/// Why a file could not be opened. A name that leads nowhere is bad input, anything else the
/// system's failure.
moert::Status openError(const std::string &path, int errnoValue);

/// The whole of a small file; refuses one that is missing or has more than mostBytes.
moert::Result<std::string> readTextFile(const std::string &path, uint64_t mostBytes);

} // namespace moec
