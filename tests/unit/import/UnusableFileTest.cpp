// Optional files: absent ones are accepted, unreadable ones are refused. Also: indices that
// disagree with their shards, and tensors that are all zero.
#include "compiler/import/ImportCheckpoint.h"
#include "compiler/import/OptionalFile.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using moec::importCheckpoint;

namespace {

const std::string kIndex = "model.safetensors.index.json";
const std::string kShard1 = "model-00001-of-00002.safetensors";

TestCheckpoint splitMixtral() {
  TestCheckpoint checkpoint = tinyMixtral();
  checkpoint.split();
  return checkpoint;
}

/// The warnings of importing a directory, line by line; fails the test if the import is refused.
std::vector<std::string> warningsOf(const std::string &directory) {
  std::vector<std::string> lines;
  auto model =
      importCheckpoint(directory, [&](std::string_view line) { lines.emplace_back(line); });
  REQUIRE_MESSAGE(model.isOk(), model.status().message());
  return lines;
}

std::vector<std::string> warningsOf(const TestCheckpoint &checkpoint) {
  const TemporaryDirectory directory;
  checkpoint.write(directory);
  return warningsOf(directory.path());
}

/// Expects one warning that contains all these parts.
void checkWarned(const std::vector<std::string> &lines, const std::vector<std::string> &parts) {
  REQUIRE(lines.size() == 1);
  INFO(lines.front());
  CHECK(lines.front().starts_with("warning: "));
  for (const std::string &part : parts) {
    INFO("looked for: " << part);
    CHECK(lines.front().find(part) != std::string::npos);
  }
}

/// Runs without privileges if the test has any to drop; root may read any file.
class WithoutRights {
public:
  WithoutRights() : wasRoot(::geteuid() == 0) {
    if (wasRoot)
      REQUIRE(::seteuid(65534) == 0);
  }
  ~WithoutRights() {
    if (wasRoot)
      CHECK(::seteuid(0) == 0);
  }

private:
  bool wasRoot;
};

void refuseOptional(const TestCheckpoint &checkpoint, const std::string &name) {
  const TemporaryDirectory directory;
  checkpoint.write(directory);
  const std::string path = directory.path(name);
  std::filesystem::remove(path);
  std::string part;
  SUBCASE("a link that leads nowhere") {
    std::filesystem::create_symlink("../../blobs/gone", path);
    part = "found a link to ../../blobs/gone, which is not there";
  }
  SUBCASE("a link through a file") {
    directory.write("some file", "");
    std::filesystem::create_symlink("some file/x", path);
    part = "found a link to some file/x, which is not there";
  }
  SUBCASE("a link to itself") {
    std::filesystem::create_symlink(name, path);
    part = "which leads in a circle";
  }
  SUBCASE("a directory") {
    std::filesystem::create_directory(path);
    part = "found a directory";
  }
  SUBCASE("a pipe") {
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    part = "found a pipe";
  }
  SUBCASE("a file that may not be read") {
    ::chmod(directory.path().c_str(), 0755);
    directory.write(name, "{}");
    ::chmod(path.c_str(), 0);
    const WithoutRights user;
    checkRefused(importCheckpoint(directory.path()).status(),
                 {path, "found a file without permission to read it"});
    return;
  }
  SUBCASE("a link into a directory that may not be entered") {
    const TemporaryDirectory blobs; // Only the owner may enter it.
    blobs.write("blob", "{}");
    std::filesystem::create_symlink(blobs.path("blob"), path);
    ::chmod(directory.path().c_str(), 0755);
    if (::geteuid() != 0)
      ::chmod(blobs.path().c_str(), 0);
    {
      const WithoutRights user;
      checkRefused(importCheckpoint(directory.path()).status(),
                   {path, "in a directory without permission to enter it"});
    }
    ::chmod(blobs.path().c_str(), 0700);
    return;
  }
  INFO(name);
  checkRefused(importCheckpoint(directory.path()).status(), {path, part});
}

} // namespace

TEST_CASE("a tokenizer.json that cannot be read is refused, not treated as absent:") {
  refuseOptional(tinyMixtral(), "tokenizer.json");
}

TEST_CASE("a generation_config.json that cannot be read is refused, not treated as absent:") {
  refuseOptional(tinyMixtral(), "generation_config.json");
}

TEST_CASE("an index that cannot be read is refused, and named:") {
  refuseOptional(splitMixtral(), kIndex);
}

TEST_CASE("a model.safetensors that cannot be read is refused, not replaced by the index:") {
  refuseOptional(splitMixtral(), "model.safetensors");
}

TEST_CASE("a config.json that cannot be read is refused, and named:") {
  refuseOptional(tinyMixtral(), "config.json");
}

TEST_CASE("a shard that cannot be read is refused, and named:") {
  refuseOptional(splitMixtral(), kShard1);
}

TEST_CASE("a tokenizer in an unsupported form is named in a warning, whatever kind of file it is") {
  for (const std::vector<std::string> &names :
       {std::vector<std::string>{"tokenizer.model"}, {"vocab.json", "merges.txt"}}) {
    const TemporaryDirectory directory;
    tinyMixtral().write(directory);
    for (const std::string &name : names)
      std::filesystem::create_symlink("../gone", directory.path(name));
    std::vector<std::string> parts = names;
    parts.insert(parts.end(), {"no tokenizer.json", "token ids", "save_pretrained"});
    checkWarned(warningsOf(directory.path()), parts);
    directory.write("tokenizer.json", "{}"); // Not read here.
    CHECK(warningsOf(directory.path()).empty());
  }
}

TEST_CASE("without any vocabulary, the tokenizer is to be downloaded") {
  const TemporaryDirectory directory;
  tinyMixtral().write(directory);
  auto opened = moec::Checkpoint::open(directory.path());
  REQUIRE(opened.isOk());
  CHECK(opened->tokenizerAdvice().starts_with("found no tokenizer.json, which"));
  directory.write("tokenizer_config.json", "{}");
  checkWarned(warningsOf(directory.path()),
              {"found tokenizer_config.json and no tokenizer.json", "download it too"});
  directory.write("tokenizer.json", "{}");
  opened = moec::Checkpoint::open(directory.path());
  REQUIRE(opened.isOk());
  CHECK(opened->tokenizerAdvice() == "");
}

TEST_CASE("a tokenizer of ranks is taken without tokenizer.json, Kimi's if its class is named") {
  const TemporaryDirectory directory;
  tinyMixtral().write(directory);
  directory.write("tiktoken.model", "AA== 1\n");
  directory.write("tokenizer_config.json", R"({"tokenizer_class": "OtherTokenizer"})");
  checkWarned(warningsOf(directory.path()), {"found tiktoken.model", "no tokenizer.json"});
  directory.write("tokenizer_config.json", R"({"tokenizer_class": "TikTokenTokenizer"})");
  CHECK(warningsOf(directory.path()).empty());
  auto opened = moec::Checkpoint::open(directory.path());
  REQUIRE(opened.isOk());
  CHECK(*opened->tokenizerPath() == directory.path("tiktoken.model"));
  checkRefused(opened->tokenizerText().status(), {"tiktoken.model: found rank 1 after 0 tokens"});
  directory.write("tekken.json", "{}");
  opened = moec::Checkpoint::open(directory.path());
  REQUIRE(opened.isOk());
  checkRefused(opened->tokenizerText().status(), {"tekken.json: config"});
  directory.write("tokenizer.json", "{}");
  opened = moec::Checkpoint::open(directory.path());
  REQUIRE(opened.isOk());
  CHECK(*opened->tokenizerText() == "{}");
}

TEST_CASE("unneeded tensors that the index lists but no shard holds give one warning") {
  TestCheckpoint checkpoint = splitMixtral();
  checkpoint.config["tie_word_embeddings"] = true;
  checkpoint.remove("lm_head.weight");
  checkpoint.index["weight_map"]["model.layers.0.self_attn.rotary_emb.inv_freq"] = kShard1;
  checkWarned(warningsOf(checkpoint),
              {kIndex, "2 tensors", "\"lm_head.weight\"", "rotary_emb.inv_freq"});
}

TEST_CASE("a missing shard is accepted if its tensors are not needed") {
  TestCheckpoint checkpoint = splitMixtral();
  checkpoint.index["weight_map"]["model.layers.9.enorm.weight"] = "model-00003.safetensors";
  checkWarned(warningsOf(checkpoint),
              {kIndex, "\"model-00003.safetensors\"", "\"model.layers.9.enorm.weight\""});
}

TEST_CASE("a tensor is used wherever a shard holds it, with a warning") {
  TestCheckpoint checkpoint = splitMixtral();
  SUBCASE("in none that the index says") {
    checkpoint.index["weight_map"].erase("model.norm.weight");
    checkWarned(warningsOf(checkpoint), {"1 tensor", "does not list", "\"model.norm.weight\""});
  }
  SUBCASE("in another one") {
    checkpoint.index["weight_map"]["model.norm.weight"] = "model-00002-of-00002.safetensors";
    checkWarned(warningsOf(checkpoint), {"1 tensor", "another shard", "\"model.norm.weight\""});
  }
}

TEST_CASE("a tensor in two shards is read from the one that the index names") {
  TestCheckpoint checkpoint = splitMixtral();
  const std::string wanted = checkpoint.tensor("model.norm.weight").bytes;
  for (auto &[file, tensors] : checkpoint.shards)
    if (checkpoint.index["weight_map"]["model.norm.weight"] != file) {
      tensors.push_back(testTensor("model.norm.weight", "BF16", {8}));
      tensors.back().bytes[0] ^= 1;
    }
  const TemporaryDirectory directory;
  checkpoint.write(directory);
  auto model = importCheckpoint(directory.path());
  REQUIRE(model.isOk());
  std::string stored(wanted.size(), '\0');
  REQUIRE(model->checkpoint
              .readStoredRows(model->description.finalNorm.weight, 0, 1,
                              std::as_writable_bytes(std::span(stored)))
              .isOk());
  CHECK(stored == wanted);
}

TEST_CASE("a warning names the first tensors that are all zero, and counts them") {
  TestCheckpoint checkpoint = tinyQwen2Moe();
  const auto zero = [&](const std::string &name) {
    std::string &bytes = checkpoint.tensor(name).bytes;
    bytes.assign(bytes.size(), '\0');
  };
  zero("model.layers.0.self_attn.q_proj.bias"); // Training may leave a bias at zero.
  CHECK(warningsOf(checkpoint).empty());
  zero("model.norm.weight");
  checkWarned(warningsOf(checkpoint), {"1 tensor", "is all zero", "\"model.norm.weight\""});
  for (const char *name : {"gate_proj", "up_proj", "down_proj"})
    zero(std::string("model.layers.0.mlp.experts.1.") + name + ".weight");
  checkWarned(warningsOf(checkpoint), {"4 tensors", "experts.1.gate_proj", "and 1 more"});
}

TEST_CASE("a tensor whose last element is not zero gives no warning") {
  TestCheckpoint checkpoint = tinyMixtral();
  const std::string name = "lm_head.weight";
  checkpoint.config["vocab_size"] = 4000;
  for (const std::string &matrix : {name, std::string("model.embed_tokens.weight")})
    checkpoint.tensor(matrix) = testTensor(matrix, "BF16", {4000, 8});
  std::string &bytes = checkpoint.tensor(name).bytes;
  bytes.assign(bytes.size(), '\0');
  checkWarned(warningsOf(checkpoint), {name});
  bytes.back() = 1;
  CHECK(warningsOf(checkpoint).empty());
}
