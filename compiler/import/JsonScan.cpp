#include "compiler/import/JsonScan.h"

#include "runtime/base/ArtifactPath.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

namespace moec {

using moert::failed;
using moert::invalidInput;
using moert::Result;
using moert::Status;

namespace {

/// Longer than any tensor name of a real checkpoint.
constexpr size_t kQuotedBytes = 160;

/// Adapts the parser's interface to JsonEventHandler. The parser keeps its own stack on the heap,
/// one bit per level, so nesting uses none of our stack.
class Adapter final : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit Adapter(JsonEventHandler &eventHandler) : handler(eventHandler) {}

  bool null() override { return pass({JsonEventKind::kNull}); }
  bool boolean(bool) override { return pass({JsonEventKind::kBoolean}); }
  bool number_integer(number_integer_t) override { return pass({JsonEventKind::kNumber}); }
  bool number_unsigned(number_unsigned_t value) override {
    return pass({JsonEventKind::kUnsigned, value});
  }
  bool number_float(number_float_t, const string_t &) override {
    return pass({JsonEventKind::kNumber});
  }
  bool string(string_t &value) override { return pass({JsonEventKind::kString, 0, &value}); }
  bool binary(binary_t &) override { return false; }
  bool key(string_t &value) override { return pass({JsonEventKind::kKey, 0, &value}); }
  bool start_object(std::size_t) override { return enter(JsonEventKind::kStartObject); }
  bool end_object() override { return leave(JsonEventKind::kEndObject); }
  bool start_array(std::size_t) override { return enter(JsonEventKind::kStartArray); }
  bool end_array() override { return leave(JsonEventKind::kEndArray); }

  bool parse_error(std::size_t position, const std::string &,
                   const nlohmann::detail::exception &error) override {
    std::string_view what = error.what();
    // The library prefixes its message with an error number in brackets.
    if (const size_t bracket = what.find("] "); bracket != std::string_view::npos)
      what.remove_prefix(bracket + 2);
    status =
        invalidInput("found broken JSON at byte ", position, ", expected valid: ", quoted(what));
    return false;
  }

  Status status;

private:
  bool pass(const JsonEvent &event) {
    status = handler.handle(event);
    return status.isOk();
  }
  bool enter(JsonEventKind kind) {
    if (++depth > kJsonMaxDepth) {
      status = invalidInput("found JSON nested deeper than ", kJsonMaxDepth,
                            " levels, expected at most that");
      return false;
    }
    return pass({kind});
  }
  bool leave(JsonEventKind kind) {
    --depth;
    return pass({kind});
  }

  JsonEventHandler &handler;
  size_t depth = 0;
};

} // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char character : text.substr(0, kQuotedBytes)) {
    const unsigned byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7f) {
      result += character;
      continue;
    }
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\x%02x", byte);
    result += escape;
  }
  return result + (text.size() > kQuotedBytes ? "...\"" : "\"");
}

std::string describeEvent(const JsonEvent &event) {
  switch (event.kind) {
  case JsonEventKind::kNull:
    return "null";
  case JsonEventKind::kBoolean:
    return "a boolean";
  case JsonEventKind::kUnsigned:
    return moert::strCat("the number ", event.number);
  case JsonEventKind::kNumber:
    return "a negative, fractional or too large number";
  case JsonEventKind::kString:
    return moert::strCat("the string ", quoted(*event.text));
  case JsonEventKind::kKey:
    return moert::strCat("the key ", quoted(*event.text));
  case JsonEventKind::kStartObject:
    return "an object";
  case JsonEventKind::kEndObject:
    return "the end of the object";
  case JsonEventKind::kStartArray:
    return "an array";
  case JsonEventKind::kEndArray:
    return "the end of the array";
  }
  return "";
}

Status scanJson(std::string_view fileName, std::string_view text, JsonEventHandler &handler) {
  // The library takes a NUL for the end of its input and skips a byte order mark; both are invalid
  // JSON.
  if (const size_t position = text.find('\0'); position != std::string_view::npos)
    return invalidInput(fileName, ": found a zero byte at byte ", position, ", expected JSON text");
  if (text.starts_with("\xef\xbb\xbf"))
    return invalidInput(fileName, ": found a byte order mark, expected JSON text without one");
  Adapter adapter(handler);
  try {
    if (nlohmann::json::sax_parse(text, &adapter))
      return Status();
  } catch (const std::bad_alloc &) {
    return failed(fileName, ": out of memory while reading ", text.size(), " bytes of JSON");
  } catch (const std::exception &error) {
    return invalidInput(fileName, ": found broken JSON, expected valid: ", quoted(error.what()));
  }
  if (adapter.status.isOk())
    return invalidInput(fileName, ": found broken JSON, expected valid");
  return std::move(adapter.status).withContext(fileName);
}

Status openError(const std::string &path, int errnoValue) {
  switch (errnoValue) {
  case ENOENT:
  case ENOTDIR:
  case ELOOP:
  case ENAMETOOLONG:
    return invalidInput(path, ": found no such file, expected one");
  default:
    return moert::openError(errnoValue, path + ": cannot open");
  }
}

Result<std::string> readTextFile(const std::string &path, uint64_t mostBytes) {
  // Do not block if the path is a pipe without a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return openError(path, errno);
  }
  struct stat info;
  std::string text;
  Status status;
  if (::fstat(descriptor, &info) != 0)
    status = moert::systemError(errno, path + ": cannot stat");
  else if (!S_ISREG(info.st_mode))
    status = invalidInput(path, ": found no regular file, expected one");
  else if (static_cast<uint64_t>(info.st_size) > mostBytes)
    status = invalidInput(path, ": found ", info.st_size, " bytes, expected at most ", mostBytes);
  else
    text.resize(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (status.isOk() && done < text.size()) {
    const ssize_t count = ::read(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      status = moert::systemError(errno, path + ": cannot read");
    else if (count == 0)
      text.resize(done); // The file shrank meanwhile; the parser gets the rest.
    else
      done += static_cast<size_t>(count);
  }
  ::close(descriptor);
  if (!status.isOk())
    return status;
  if (const std::string found = moert::foreignFileText(text.substr(0, 64)); !found.empty())
    return invalidInput(path, ": ", found);
  return text;
}

} // namespace moec
