// Checkpoints with a wrong index or wrong tensors: each row is refused with a message that names
// the file, the found and the expected value.
#include "compiler/import/ImportCheckpoint.h"
#include "runtime/base/ArtifactPath.h"
#include "tests/unit/import/TestCheckpoint.h"

#include <doctest/doctest.h>

#include <filesystem>

namespace {

using Row = BrokenCheckpoint;

TestCheckpoint splitMixtral() {
  TestCheckpoint checkpoint = tinyMixtral();
  checkpoint.split();
  return checkpoint;
}

const std::string kShard2 = "model-00002-of-00002.safetensors";
const std::string kModule = "model.layers.0.block_sparse_moe.";

const std::vector<Row> kTensors = {
    {"no weights at all", [](auto &c) { c.shards.clear(); }, "",
     "found neither model.safetensors nor model.safetensors.index.json"},
    {"an empty weight file", [](auto &c) { c.raw["model.safetensors"] = ""; }, "model.safetensors",
     "found 0 bytes"},
    {"a missing expert", [](auto &c) { c.remove(kModule + "experts.1.w2.weight"); }, "",
     "found no tensor \"model.layers.0.block_sparse_moe.experts.1.w2.weight\""},
    {"a missing head", [](auto &c) { c.remove("lm_head.weight"); }, "",
     "found no tensor \"lm_head.weight\", expected it with shape [16, 8]"},
    {"names of another family",
     [](auto &c) { c.tensor(kModule + "gate.weight").name = "model.layers.0.router.weight"; }, "",
     "found no tensor \"model.layers.0.block_sparse_moe.gate.weight\""},
    {"a matrix that is transposed",
     [](auto &c) {
       c.tensor(kModule + "experts.0.w1.weight").shape = {8, 6};
     },
     "model.safetensors", "experts.0.w1.weight\": found shape [8, 6], expected [6, 8]"},
    {"a matrix with a third dimension",
     [](auto &c) {
       c.tensor("lm_head.weight").shape = {1, 16, 8};
     },
     "model.safetensors", "found shape [1, 16, 8], expected [16, 8]"},
    {"a router for more experts than the config says",
     [](auto &c) {
       c.tensor(kModule + "gate.weight") = testTensor(kModule + "gate.weight", "BF16", {4, 8});
     },
     "model.safetensors", "found shape [4, 8], expected [2, 8]"},
    {"a norm of another length",
     [](auto &c) { c.tensor("model.norm.weight") = testTensor("model.norm.weight", "BF16", {4}); },
     "model.safetensors", "\"model.norm.weight\": found shape [4], expected [8] or [1, 8]"},
    {"weights of 8 bits",
     [](auto &c) {
       TestTensor &tensor = c.tensor("lm_head.weight");
       tensor.type = "F8_E4M3";
       tensor.bytes.resize(128);
     },
     "model.safetensors", "found dtype F8_E4M3, expected BF16, F16 or F32"},
    {"weights of integers", [](auto &c) { c.tensor("lm_head.weight").type = "I16"; },
     "model.safetensors", "found dtype I16"},
    {"scales beside a weight",
     [](auto &c) {
       c.shards.begin()->second.push_back(testTensor("lm_head.weight_scale_inv", "F32", {1, 1}));
     },
     "", "found tensor \"lm_head.weight_scale_inv\", which the model"},
    {"fused experts with another inner width",
     [](auto &c) {
       c = fuseExperts(c);
       c.tensor(kModule + "experts.gate_up_proj").shape = {2, 8, 12};
     },
     "model.safetensors", "found shape [2, 8, 12], expected [2, 12, 8]"},
    {"fused experts with a third expert",
     [](auto &c) {
       c = fuseExperts(c);
       c.tensor(kModule + "experts.down_proj") =
           testTensor(kModule + "experts.down_proj", "BF16", {3, 8, 6});
     },
     "model.safetensors", "found shape [3, 8, 6], expected [2, 8, 6]"},
    {"fused experts without their second half",
     [](auto &c) {
       c = fuseExperts(c);
       c.remove(kModule + "experts.down_proj");
     },
     "", "experts.down_proj\", expected it with shape [2, 8, 6]"},
    {"fused experts and single ones",
     [](auto &c) {
       c.shards.begin()->second.push_back(
           testTensor(kModule + "experts.gate_up_proj", "BF16", {2, 12, 8}));
     },
     "experts.gate_up_proj", "as well as tensors of single experts"},
};

const std::string kIndex = "model.safetensors.index.json";

const std::vector<Row> kIndexFiles = {
    {"empty", [](auto &c) { c.raw[kIndex] = ""; }, "index.json", "broken JSON"},
    {"a list", [](auto &c) { c.raw[kIndex] = "[]"; }, "index.json", "found an array"},
    {"no weight_map", [](auto &c) { c.index.erase("weight_map"); }, "index.json",
     "found no weight_map"},
    {"an empty weight_map", [](auto &c) { c.index["weight_map"] = nlohmann::json::object(); },
     "index.json", "found an empty weight_map"},
    {"a weight_map that is a list", [](auto &c) { c.index["weight_map"] = {"a"}; }, "index.json",
     "weight_map: found an array"},
    {"weight_map twice", [](auto &c) { c.raw[kIndex] = R"({"weight_map":{},"weight_map":{}})"; },
     "index.json", "weight_map twice"},
    {"a file name that is a number", [](auto &c) { c.index["weight_map"]["lm_head.weight"] = 2; },
     "index.json", "weight_map of \"lm_head.weight\": found the number 2"},
    {"a tensor twice", [](auto &c) { c.raw[kIndex] = R"({"weight_map":{"a":"b","a":"c"}})"; },
     "index.json", "found \"a\" twice"},
    {"a shard in another directory",
     [](auto &c) { c.index["weight_map"]["lm_head.weight"] = "sub/x.safetensors"; }, "index.json",
     "found \"sub/x.safetensors\", expected the name of a file in the same directory"},
    {"an absolute shard", [](auto &c) { c.index["weight_map"]["lm_head.weight"] = "/etc/passwd"; },
     "index.json", "found \"/etc/passwd\""},
    {"a shard above the directory", [](auto &c) { c.index["weight_map"]["lm_head.weight"] = ".."; },
     "index.json", "found \"..\""},
    {"a shard with a backslash", [](auto &c) { c.index["weight_map"]["lm_head.weight"] = "a\\b"; },
     "index.json", "found \"a\\b\""},
    {"a shard without a name", [](auto &c) { c.index["weight_map"]["lm_head.weight"] = ""; },
     "index.json", "found \"\""},
    {"a shard that is not there", [](auto &c) { c.shards.erase(kShard2); }, kShard2.c_str(),
     "and there is no such file"},
    {"no shard that is there", [](auto &c) { c.shards.clear(); }, "-of-00002.safetensors",
     "found no such file"},
    {"a shard name that no file system takes",
     [](auto &c) {
       c.remove("lm_head.weight");
       c.index["weight_map"]["lm_head.weight"] = std::string(300, 'x');
     },
     "index.json", "and there is no such file"},
    {"a shard that is cut off",
     [](auto &c) {
       std::string bytes = safetensorsBytes(c.shards[kShard2]);
       bytes.pop_back();
       c.raw[kShard2] = bytes;
     },
     kShard2.c_str(), "bytes of data, expected"},
    {"a tensor that is missing from its shard", [](auto &c) { c.remove("lm_head.weight"); },
     "index.json places it in ", "found no tensor \"lm_head.weight\""},
    {"a tensor that neither the index nor a shard has",
     [](auto &c) {
       c.remove("lm_head.weight");
       c.index["weight_map"].erase("lm_head.weight");
     },
     "index.json nor a shard that it names has it", "found no tensor \"lm_head.weight\""},
    {"a tensor in a shard that the index does not name",
     [](auto &c) {
       const TestTensor head = c.tensor("lm_head.weight");
       c.remove("lm_head.weight");
       c.shards["more.safetensors"] = {head};
       c.index["weight_map"].erase("lm_head.weight");
     },
     "index.json", "it does not name \"more.safetensors\", which is not read"},
    {"a tensor in two shards, and the index names a third place",
     [](auto &c) {
       for (auto &[file, tensors] : c.shards)
         tensors.push_back(testTensor("model.more.weight", "BF16", {2}));
     },
     "index.json", "found tensor \"model.more.weight\" in "},
};

} // namespace

TEST_CASE("the checkpoints are valid before they are broken") {
  CHECK(importStatus(tinyMixtral()).message() == "");
  CHECK(importStatus(tinyQwen2Moe()).message() == "");
  CHECK(importStatus(splitMixtral()).message() == "");
  CHECK(importStatus(fuseExperts(tinyMixtral())).message() == "");
  CHECK(importStatus(fuseExperts(tinyQwen2Moe())).message() == "");
}

TEST_CASE("tensors that do not fit the config are refused:") {
  checkBroken(kTensors, tinyMixtral);
}

TEST_CASE("a broken shard index is refused:") {
  checkBroken(kIndexFiles, splitMixtral);
}

TEST_CASE("a missing directory is refused") {
  checkRefused(moec::importCheckpoint("/nonexistent/checkpoint").status(),
               {"/nonexistent/checkpoint", "found no such directory"});
}

TEST_CASE(
    "a file in place of a checkpoint is refused, an artifact with the commands that take one") {
  const TemporaryDirectory directory;
  directory.write("weights", "weights");
  checkRefused(moec::importCheckpoint(directory.path("weights")).status(),
               {"weights: found a file, expected a GGUF file"});
  directory.write("some.moe", std::string(reinterpret_cast<const char *>(moert::kArtifactMagic),
                                          sizeof moert::kArtifactMagic));
  const std::string path = directory.path("some.moe");
  checkRefused(moec::importCheckpoint(path).status(),
               {"found an artifact", "moert run " + path, "moec replan " + path});
}

constexpr const char *kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";

TEST_CASE("pointers of git-lfs are named, with what fetches the files") {
  const TemporaryDirectory directory;
  TestCheckpoint checkpoint = tinyMixtral();
  checkpoint.write(directory);
  directory.write("model.safetensors", kPointer);
  checkRefused(moec::importCheckpoint(directory.path()).status(),
               {"model.safetensors: found a pointer of git-lfs", "git lfs pull"});
  directory.write("config.json", kPointer);
  checkRefused(moec::importCheckpoint(directory.path()).status(),
               {"config.json: found a pointer of git-lfs"});
}

TEST_CASE("a folder with a GGUF file and no config is refused with what to give instead") {
  const TemporaryDirectory directory;
  directory.write("a.gguf", "GGUF\x03");
  checkRefused(moec::importCheckpoint(directory.path()).status(),
               {"found a.gguf and no config.json", "give its own path"});
}

TEST_CASE("weights as pickles alone are refused with what writes safetensors") {
  const TemporaryDirectory directory;
  TestCheckpoint checkpoint = tinyMixtral();
  checkpoint.shards.clear();
  checkpoint.write(directory);
  directory.write("pytorch_model.bin", "PK");
  checkRefused(moec::importCheckpoint(directory.path()).status(),
               {"found pytorch_model.bin, which is not read", "save_pretrained"});
}

TEST_CASE("the name of a model on the hub is refused with the commands that get it") {
  checkRefused(moec::importCheckpoint("Organization/Model-1.5B").status(),
               {"no such directory",
                "hf download Organization/Model-1.5B --local-dir Model-1.5B, then moec "
                "compile Model-1.5B -o Model-1.5B.moe"});
}

TEST_CASE("a shard that is a directory is refused") {
  const TemporaryDirectory directory;
  TestCheckpoint checkpoint = splitMixtral();
  checkpoint.shards.erase(kShard2);
  checkpoint.write(directory);
  std::filesystem::create_directory(directory.path() + "/" + kShard2);
  checkRefused(moec::importCheckpoint(directory.path()).status(),
               {kShard2, "found a directory, expected a regular file"});
}
