#include "runtime/base/Status.h"

#include <cerrno>
#include <cstring>

namespace moert {

namespace detail {

MessageStream::MessageStream() {
  stream.exceptions(std::ios::badbit); // Without memory it would leave parts out.
}
MessageStream::~MessageStream() = default;
std::string MessageStream::text() const {
  return stream.str();
}

} // namespace detail

Status Status::withContext(std::string_view context) const & {
  Status copy = *this;
  return std::move(copy).withContext(context);
}

Status Status::withContext(std::string_view context) && {
  if (!isOk())
    text = strCat(context, ": ", text);
  return std::move(*this);
}

Status systemError(int errnoValue, std::string_view whatFailed) {
  return Status(StatusCode::kFailed, strCat(whatFailed, ": ", std::strerror(errnoValue)));
}

Status openError(int errnoValue, std::string_view whatFailed) {
  switch (errnoValue) {
  case EMFILE:
  case ENFILE:
  case ENOMEM:
  case ENOSPC:
  case EDQUOT:
  case EIO:
    return systemError(errnoValue, whatFailed);
  default:
    return invalidInput(whatFailed, ": ", std::strerror(errnoValue));
  }
}

int exitCode(const Status &status) {
  switch (status.code()) {
  case StatusCode::kOk:
    return 0;
  case StatusCode::kFailed:
    return 1;
  case StatusCode::kInvalidInput:
    return 2;
  case StatusCode::kInterrupted:
    return 130;
  }
  return 1;
}

} // namespace moert
