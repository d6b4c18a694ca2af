// moec verify checks the content of the tokenizer, the activation-path table and the trace:
// unusable content is refused, even with a right checksum.
#include "compiler/inspection/VerifyArtifact.h"

#include "compiler/import/tokenizer/TokenizerJson.h"
#include "compiler/profile/TraceSection.h"
#include "runtime/base/Checksum.h"
#include "runtime/experts/PathTable.h"
#include "runtime/format/Writer.h"
#include "runtime/text/tokenizer/Tokenizer.h"
#include "runtime/text/tokenizer/TokenizerTable.h"
#include "tests/unit/format/TinyArtifact.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace moec;
using namespace moert;

static std::vector<std::byte> smallTable() {
  auto model = parseTokenizerJson(R"({
    "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
    "post_processor": null, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})",
                                  "tokenizer.json");
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  return writeTokenizerTable(*model);
}

// The tiny artifact's file with these sections and right checksums.
static std::vector<std::byte> fileWith(std::span<const std::byte> table,
                                       std::span<const std::byte> paths = {},
                                       std::span<const std::byte> trace = {}) {
  Artifact artifact = tinyArtifact();
  REQUIRE(layOutArtifact(artifact, {table.size(), paths.size(), trace.size()}).isOk());
  std::vector<std::byte> weights = fileOf(artifact);
  artifact.tokenizerChecksum = checksum64(table);
  artifact.pathsChecksum = checksum64(paths);
  artifact.traceChecksum = checksum64(trace);
  auto sealed = sealArtifact(artifact);
  REQUIRE_MESSAGE(sealed.isOk(), sealed.status().message());
  std::vector<std::byte> file(artifact.fileBytes);
  std::copy_n(weights.begin(), sealed->manifestOffset, file.begin());
  std::copy(table.begin(), table.end(), file.begin() + ptrdiff_t(artifact.tokenizerOffset));
  std::copy(paths.begin(), paths.end(), file.begin() + ptrdiff_t(artifact.pathsOffset));
  std::copy(trace.begin(), trace.end(), file.begin() + ptrdiff_t(artifact.traceOffset));
  std::copy(sealed->manifest.begin(), sealed->manifest.end(),
            file.begin() + ptrdiff_t(sealed->manifestOffset));
  std::copy(sealed->prefix.begin(), sealed->prefix.end(), file.begin());
  return file;
}

static Status verify(std::span<const std::byte> file) {
  return verifyWholeArtifact(MemorySource("tiny.moe", file));
}

TEST_CASE("an artifact whose tokenizer loads passes, and one without a tokenizer") {
  Status status = verify(fileWith(smallTable()));
  CHECK_MESSAGE(status.isOk(), status.message());
  status = verify(fileWith({}));
  CHECK_MESSAGE(status.isOk(), status.message());
}

TEST_CASE("verify refuses exactly the changed tables, with right checksums, that no run "
          "can load") {
  const std::vector<std::byte> table = smallTable();
  size_t refused = 0, accepted = 0;
  for (size_t i = 0; i < table.size(); ++i) {
    CAPTURE(i);
    std::vector<std::byte> changed = table;
    changed[i] ^= std::byte(0x41);
    const bool loads = Tokenizer::load(changed).isOk();
    Status status = verify(fileWith(changed));
    CHECK(status.isOk() == loads);
    if (!loads) {
      CHECK(status.code() == StatusCode::kInvalidInput);
      CHECK(status.message().rfind("tiny.moe: section tokenizer: ", 0) == 0);
    }
    ++(loads ? accepted : refused);
  }
  // Both kinds must occur for the comparison to be meaningful; a letter may become another valid
  // one.
  CHECK(refused > 0);
  CHECK(accepted > 0);
}

TEST_CASE("damage that a checksum finds is still found") {
  std::vector<std::byte> file = fileWith(smallTable());
  Artifact artifact = *readArtifact(MemorySource("tiny.moe", file));
  file[artifact.tokenizerOffset + 4] ^= std::byte(1);
  Status status = verify(file);
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK(status.message().find("section tokenizer is damaged") != std::string::npos);
}

TEST_CASE(
    "an activation-path table and a trace of other layers are refused, even with right checksums") {
  auto pathsOf = [](uint32_t experts) {
    const uint32_t head[] = {PathTableHeader::kMagic, 1, 2, 0, 4, experts};
    std::vector<std::byte> bytes(sizeof(head) + 4 * experts, std::byte(64));
    std::copy_n(std::as_bytes(std::span(head)).begin(), sizeof(head), bytes.begin());
    return bytes;
  };
  auto traceOf = [](uint32_t experts) {
    return encodeTrace({1, 1, {{4, 1, {2}, {{1, {0}, {9}}}}, {experts, 1, {3}, {}}}});
  };
  Status status = verify(fileWith(smallTable(), pathsOf(4), traceOf(4)));
  CHECK_MESSAGE(status.isOk(), status.message());
  status = verify(fileWith(smallTable(), pathsOf(5), traceOf(4)));
  CHECK(status.message() == "tiny.moe: section paths: the activation-path table has 5 experts in "
                            "MoE layer 1, expected 4");
  status = verify(fileWith(smallTable(), pathsOf(4), traceOf(5)));
  CHECK(status.message() ==
        "tiny.moe: section trace: the trace has 5 experts in MoE layer 1, expected 4");
}
