#include "tests/unit/format/BrokenCases.h"

#include "runtime/format/Reader.h"

#include <doctest/doctest.h>

using namespace moert;

void checkAllRefused(const std::vector<Broken> &cases, const Artifact &whole) {
  for (const Broken &broken : cases) {
    Artifact artifact = whole;
    broken.breakIt(artifact);
    std::vector<std::byte> file = fileOf(artifact);
    auto read = readArtifact(MemorySource("broken.moe", file));
    REQUIRE_MESSAGE(!read.isOk(), broken.what);
    const std::string &message = read.status().message();
    CHECK_MESSAGE(read.status().code() == StatusCode::kInvalidInput, message);
    CHECK_MESSAGE(message.rfind("broken.moe: ", 0) == 0, message);
    CHECK_MESSAGE(message.find(broken.message) != std::string::npos, broken.what, ": ", message);
  }
}

Status readBack(Artifact artifact) {
  std::vector<std::byte> file = fileOf(artifact);
  return readArtifact(MemorySource("tiny.moe", file)).status();
}
