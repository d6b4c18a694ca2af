#include "runtime/base/Status.h"

#include <cerrno>
#include <doctest/doctest.h>

using namespace moert;

static Result<int> half(int value) {
  if (value % 2 != 0)
    return invalidInput("found ", value, ", expected an even number");
  return value / 2;
}

static Result<int> quarter(int value) {
  MOERT_ASSIGN_OR_RETURN(int halved, half(value));
  return half(halved);
}

TEST_CASE("an error rises through MOERT_ASSIGN_OR_RETURN with its code and message") {
  Result<int> refused = quarter(6);
  REQUIRE(!refused.isOk());
  CHECK(refused.status().code() == StatusCode::kInvalidInput);
  CHECK(refused.status().message() == "found 3, expected an even number");
  CHECK(quarter(8).value() == 2);
}

TEST_CASE("context precedes the message and never turns success into an error") {
  CHECK(invalidInput("x").withContext("a.json").message() == "a.json: x");
  CHECK(Status().withContext("a.json").isOk());
}

TEST_CASE("exit codes distinguish invalid input from failures") {
  CHECK(exitCode(Status()) == 0);
  CHECK(exitCode(systemError(ENOSPC, "write")) == 1);
  CHECK(exitCode(invalidInput("x")) == 2);
}

TEST_CASE("a file that cannot be opened is invalid input, a system at its limits is not") {
  Status denied = openError(EACCES, "a.moe");
  CHECK(denied.code() == StatusCode::kInvalidInput);
  CHECK(denied.message() == "a.moe: Permission denied");
  for (int error : {ENOENT, EISDIR, ENOTDIR, ELOOP, EROFS, ENAMETOOLONG, ENXIO})
    CHECK(exitCode(openError(error, "a.moe")) == 2);
  for (int error : {EMFILE, ENFILE, ENOMEM, ENOSPC, EIO})
    CHECK(exitCode(openError(error, "a.moe")) == 1);
}
