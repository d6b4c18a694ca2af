#include "tools/moert/LogitsFile.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

using namespace moert;
using namespace moert::cli;

TEST_CASE("the header lists the tensors without gaps, padded to 8 bytes") {
  std::string header = logitsHeader({2, 5, 3, 4});
  uint64_t length = 0;
  std::memcpy(&length, header.data(), 8);
  CHECK(length == header.size() - 8);
  CHECK(length % 8 == 0);
  CHECK(header.substr(8).starts_with(
      R"({"logits":{"dtype":"F32","shape":[2,5],"data_offsets":[0,40]},)"
      R"("weights":{"dtype":"F32","shape":[3,2,4],"data_offsets":[40,136]},)"
      R"("experts":{"dtype":"I32","shape":[3,2,4],"data_offsets":[136,232]}})"));
}

TEST_CASE("rows and choices of several chunks arrive at their places") {
  const std::string path = "logits_file_test.safetensors";
  const LogitsShape shape = {3, 2, 2, 2}; // 3 tokens, 2 logits, 2 layers, 2 experts each.
  {
    auto file = LogitsFile::create(path, shape, 2);
    REQUIRE(file.isOk());
    // The session is passed through and never read.
    alignas(Session) std::byte storage[sizeof(Session)] = {};
    Session &session = *reinterpret_cast<Session *>(storage);
    auto chunk = [&](uint32_t begin, uint32_t tokens) {
      file->beginChunk(begin, tokens);
      for (uint32_t layer = 0; layer < 2; ++layer)
        for (uint32_t i = begin; i < begin + tokens; ++i) {
          auto value = static_cast<int32_t>(100 * layer + 10 * i);
          std::vector<int32_t> experts = {value, value + 1};
          std::vector<float> weights = {float(value), float(value + 1)};
          if (i == 2)
            experts.resize(1), weights.resize(1); // A layer that chooses fewer experts.
          file->onRoute(session, layer, i, experts, weights);
        }
      for (uint32_t i = begin; i < begin + tokens; ++i)
        REQUIRE(file->onLogits(session, i, std::vector<float>{float(i), -float(i)}).isOk());
      REQUIRE(file->endChunk().isOk());
    };
    chunk(0, 2);
    chunk(2, 1);
    REQUIRE(file->commit().isOk());
  }
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  std::string data = content.str().substr(logitsHeader(shape).size());
  REQUIRE(data.size() == (6 + 12 + 12) * 4);
  std::vector<float> floats(18);
  std::vector<int32_t> experts(12);
  std::memcpy(floats.data(), data.data(), 72);
  std::memcpy(experts.data(), data.data() + 72, 48);
  CHECK(floats ==
        std::vector<float>{0, 0, 1, -1, 2, -2, 0, 1, 10, 11, 20, 0, 100, 101, 110, 111, 120, 0});
  CHECK(experts == std::vector<int32_t>{0, 1, 10, 11, 20, -1, 100, 101, 110, 111, 120, -1});
  std::remove(path.c_str());
}
