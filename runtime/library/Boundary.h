// What every function of the C interface does at its edge: no exception leaves, errors become
// texts, structs of other versions are read and written as far as both sides know them, and the
// caller's floating-point mode changes no bit.
#pragma once

#include "moert/moert.h"

#include "runtime/base/FloatMode.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace moert::library {

/// A copy for moert_free(), ended by a NUL; nullptr if there is no memory.
inline char *copyOf(std::string_view text) {
  char *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (copy) {
    std::memcpy(copy, text.data(), text.size());
    copy[text.size()] = '\0';
  }
  return copy;
}

inline moert_status statusOf(StatusCode code) {
  switch (code) {
  case StatusCode::kOk:
    return MOERT_OK;
  case StatusCode::kInvalidInput:
    return MOERT_REFUSED;
  case StatusCode::kInterrupted:
    return MOERT_INTERRUPTED;
  default:
    return MOERT_FAILED;
  }
}

/// Runs the body of a function of the interface.
template <typename Body> moert_status guarded(char **error, Body body) noexcept {
  if (error)
    *error = nullptr;
  const DefaultFloatMode mode;
  moert_status status = MOERT_FAILED;
  try {
    const Status done = body();
    status = statusOf(done.code());
    if (error && status != MOERT_OK)
      *error = copyOf(done.message());
  } catch (const std::bad_alloc &) {
    if (error)
      *error = copyOf("there is not enough memory");
  } catch (const std::exception &thrown) {
    if (error)
      *error = copyOf(thrown.what());
  }
  return status;
}

/// Options as this library knows them. Refuses fields that it does not know and that are set.
template <typename Options>
Result<Options> optionsFrom(const Options *given, Options defaults, const char *name) {
  if (!given)
    return defaults;
  const size_t bytes = given->struct_bytes;
  if (bytes < sizeof(size_t) || bytes > 64 * sizeof(Options))
    return invalidInput(name, ": struct_bytes is ", bytes, ", expected ", sizeof(Options),
                        "; the struct's _INIT macro sets it");
  const char *raw = reinterpret_cast<const char *>(given);
  for (size_t i = sizeof(Options); i < bytes; ++i)
    if (raw[i] != 0)
      return invalidInput(name, ": a field that this library does not know is set, at byte ", i,
                          " of ", bytes, "; this library knows ", sizeof(Options), " bytes");
  std::memcpy(&defaults, raw, std::min(bytes, sizeof(Options)));
  return defaults;
}

/// Fills in the fields that the caller knows.
template <typename Facts> Status giveFacts(const Facts &facts, Facts *out, const char *name) {
  if (!out || out->struct_bytes < sizeof(size_t))
    return invalidInput(name, ": expected a struct that its _INIT macro initialized");
  const size_t bytes = out->struct_bytes;
  std::memcpy(out, &facts, std::min(bytes, sizeof(Facts)));
  out->struct_bytes = bytes;
  return {};
}

/// For arguments that may not be NULL.
inline Status needs(const void *argument, const char *name) {
  return argument ? Status() : invalidInput(name, " is NULL");
}

} // namespace moert::library
