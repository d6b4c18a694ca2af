// Errors as values. Every function of the runtime that can fail returns Status or Result<T>; no
// exception crosses a library edge. A message names the file, what was found and what was expected;
// callers add context with withContext() as the error rises.
#pragma once

#include <cassert>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace moert {

enum class StatusCode {
  kOk,
  kInvalidInput, // A file, flag or request that cannot work. Exit 2.
  kFailed,       // The system failed: disk, memory, threads. Exit 1.
  kInterrupted,  // The user asked to stop. Exit 130.
};

namespace detail {

/// A string stream whose large constructor and destructor are compiled once, not into every
/// message.
class MessageStream {
public:
  MessageStream();
  ~MessageStream();
  std::string text() const;

  std::ostringstream stream;
};

// Literals of every length and strings become one type, so that similar messages share code.
inline std::string_view messagePart(const char *text) {
  return text;
}
inline std::string_view messagePart(const std::string &text) {
  return text;
}
template <typename Part> const Part &messagePart(const Part &part) {
  return part;
}

template <typename... Parts>
[[gnu::noinline, gnu::cold]] std::string concatenate(const Parts &...parts) {
  MessageStream message;
  (message.stream << ... << parts);
  return message.text();
}

} // namespace detail

/// Concatenates anything that can be streamed; all messages are built with it.
template <typename... Parts> std::string strCat(const Parts &...parts) {
  return detail::concatenate(detail::messagePart(parts)...);
}

/// Success, or a code and a message for a person. Cheap to move; safe to copy between threads.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message) : statusCode(code), text(std::move(message)) {
    assert(code != StatusCode::kOk && "success has no message");
  }

  bool isOk() const { return statusCode == StatusCode::kOk; }
  StatusCode code() const { return statusCode; }
  const std::string &message() const { return text; }

  /// The same error with "context: " in front of its message; success stays success.
  Status withContext(std::string_view context) const &;
  Status withContext(std::string_view context) &&;

private:
  StatusCode statusCode = StatusCode::kOk;
  std::string text;
};

template <typename... Parts> Status invalidInput(const Parts &...parts) {
  return Status(StatusCode::kInvalidInput, strCat(parts...));
}
template <typename... Parts> Status failed(const Parts &...parts) {
  return Status(StatusCode::kFailed, strCat(parts...));
}
/// A failed system call: the message ends in errno's text. Pass errno before another call changes
/// it.
Status systemError(int errnoValue, std::string_view whatFailed);
/// A file that could not be opened or created, by the name that the user gave. Invalid input,
/// unless the system reached a limit of its own (memory, descriptors, disk space) or the disk is
/// broken.
Status openError(int errnoValue, std::string_view whatFailed);

/// The exit code of a program that ends with this status: 0, 1, 2 or 130.
int exitCode(const Status &status);

/// A value, or the error that prevented it.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : content(std::move(value)) {}
  Result(Status error) : errorStatus(std::move(error)) {
    assert(!errorStatus.isOk() && "a Result without a value needs an error");
  }

  bool isOk() const { return content.has_value(); }
  const Status &status() const { return errorStatus; }
  T &value() & {
    assert(isOk());
    return *content;
  }
  const T &value() const & {
    assert(isOk());
    return *content;
  }
  T &&value() && {
    assert(isOk());
    return std::move(*content);
  }
  T &operator*() & { return value(); }
  const T &operator*() const & { return value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }

private:
  std::optional<T> content;
  Status errorStatus;
};

} // namespace moert

#define MOERT_CONCAT_INNER(a, b) a##b
#define MOERT_CONCAT(a, b) MOERT_CONCAT_INNER(a, b)

/// Returns the error of the expression, if it has one.
#define MOERT_RETURN_IF_ERROR(expression)                                                          \
  do {                                                                                             \
    ::moert::Status moertStatus = (expression);                                                    \
    if (!moertStatus.isOk())                                                                       \
      return moertStatus;                                                                          \
  } while (false)

/// MOERT_ASSIGN_OR_RETURN(auto file, openFile(path)): declares `file` with the value, or returns
/// the error.
#define MOERT_ASSIGN_OR_RETURN(declaration, expression)                                            \
  auto MOERT_CONCAT(moertResult, __LINE__) = (expression);                                         \
  if (!MOERT_CONCAT(moertResult, __LINE__).isOk())                                                 \
    return MOERT_CONCAT(moertResult, __LINE__).status();                                           \
  declaration = std::move(MOERT_CONCAT(moertResult, __LINE__)).value()
