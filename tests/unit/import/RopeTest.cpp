// The inverse frequencies of every supported scaling, compared with long double arithmetic.
#include "compiler/import/architectures/Rope.h"

#include "compiler/import/ImportCheckpoint.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

using moec::Config;
using moec::RopeDescription;

namespace {

RopeDescription rope(const std::string &json, uint32_t dim) {
  auto config = Config::parse("config.json", json);
  REQUIRE(config.isOk());
  auto result = moec::readRope(config->root(), {.dim = dim});
  INFO(result.status().message());
  REQUIRE(result.isOk());
  return std::move(result).value();
}

/// Allows one unit in the last place, since the expected value comes from another expression.
bool isClose(float found, long double expected) {
  return std::fabs(static_cast<long double>(found) - expected) <= 0x1p-23L * std::fabs(expected);
}

long double plain(long double theta, int i, int dim) {
  return std::pow(theta, -2.0L * i / dim);
}

} // namespace

TEST_CASE("plain frequencies are theta to the power of -2i/d") {
  for (const uint32_t dim : {2u, 16u, 24u, 128u}) {
    const RopeDescription description = rope(R"({"rope_theta":1000000.0})", dim);
    REQUIRE(description.inverseFrequencies.size() == dim / 2);
    CHECK(description.attentionFactor == 1.0f);
    CHECK(description.style == moec::RopeStyle::kHalf);
    CHECK(description.inverseFrequencies[0] == 1.0f);
    for (uint32_t i = 0; i < dim / 2; ++i)
      CHECK(isClose(description.inverseFrequencies[i],
                    plain(1e6L, static_cast<int>(i), static_cast<int>(dim))));
  }
}

TEST_CASE("frequencies have the same bits on every machine") {
  const RopeDescription description = rope(R"({"rope_theta":10000})", 8);
  // 1, 0.1, 0.01 and 0.001, each rounded to f32.
  const std::vector<uint32_t> expected = {0x3f800000, 0x3dcccccd, 0x3c23d70a, 0x3a83126f};
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(std::bit_cast<uint32_t>(description.inverseFrequencies[i]) == expected[i]);
}

TEST_CASE("linear scaling divides every frequency") {
  const RopeDescription description =
      rope(R"({"rope_theta":10000,"rope_scaling":{"type":"linear","factor":4}})", 16);
  for (int i = 0; i < 8; ++i)
    CHECK(isClose(description.inverseFrequencies[static_cast<size_t>(i)], plain(1e4L, i, 16) / 4));
}

TEST_CASE("divisors divide a frequency each") {
  const RopeDescription description = rope(
      R"({"rope_theta":10000,"rope_scaling":{"rope_type":"divided","divisors":[1,1.5,8,1e30]}})",
      8);
  const long double divisors[] = {1, 1.5, 8, 1e30L};
  for (int i = 0; i < 4; ++i)
    CHECK(isClose(description.inverseFrequencies[static_cast<size_t>(i)],
                  plain(1e4L, i, 8) / divisors[i]));
}

TEST_CASE("llama3 scaling keeps short waves, divides long ones and blends between") {
  const RopeDescription description = rope(
      R"({"rope_theta":10000,"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,)"
      R"("high_freq_factor":4,"original_max_position_embeddings":64}})",
      32);
  int kept = 0, divided = 0, blended = 0;
  for (int i = 0; i < 16; ++i) {
    const long double inverse = plain(1e4L, i, 32);
    const long double wave = 2 * 3.14159265358979323846264338327950288L / inverse;
    long double expected = inverse;
    if (wave > 64) { // 64 / low
      expected = inverse / 8;
      ++divided;
    } else if (wave >= 16) { // 64 / high
      const long double smooth = (64 / wave - 1) / 3;
      expected = (1 - smooth) * inverse / 8 + smooth * inverse;
      ++blended;
    } else {
      ++kept;
    }
    CHECK(isClose(description.inverseFrequencies[static_cast<size_t>(i)], expected));
  }
  CHECK(kept > 0);
  CHECK(divided > 0);
  CHECK(blended > 0);
}

TEST_CASE("both spellings of a rotary embedding give the same result") {
  const RopeDescription published =
      rope(R"({"rope_theta":5000,"rope_scaling":{"type":"linear","factor":2.5}})", 8);
  const RopeDescription rewritten =
      rope(R"({"rope_parameters":{"rope_theta":5000,"rope_type":"linear","factor":2.5}})", 8);
  CHECK(published.inverseFrequencies == rewritten.inverseFrequencies);
}

TEST_CASE("rope_parameters without a type are unscaled, and theta may be outside of them") {
  const RopeDescription plainRope = rope(R"({"rope_theta":5000})", 8);
  CHECK(rope(R"({"rope_parameters":{"rope_theta":5000}})", 8).inverseFrequencies ==
        plainRope.inverseFrequencies);
  CHECK(rope(R"({"rope_theta":5000,"rope_parameters":{"rope_type":"default"}})", 8)
            .inverseFrequencies == plainRope.inverseFrequencies);
  CHECK(rope(R"({"rope_theta":5000,"rope_scaling":null,"partial_rotary_factor":1.0})", 8)
            .inverseFrequencies == plainRope.inverseFrequencies);
}

namespace {

moert::Result<RopeDescription> layerRope(const std::string &parameters, bool mayBeProportional) {
  auto config = Config::parse("config.json", R"({"rope_parameters":{"full":)" + parameters + "}}");
  REQUIRE(config.isOk());
  return moec::readLayerRope(config->root(), "full",
                             {.dim = 16, .mayBeProportional = mayBeProportional});
}

} // namespace

TEST_CASE("a proportional rotation has the frequencies of a whole head, and zeros after its part") {
  const auto proportional = layerRope(
      R"({"rope_type":"proportional","rope_theta":1000000,"partial_rotary_factor":0.3})", true);
  REQUIRE(proportional.isOk());
  const std::vector<float> &frequencies = proportional->inverseFrequencies;
  REQUIRE(frequencies.size() == 8);
  for (int i = 0; i < 2; ++i)
    CHECK(isClose(frequencies[static_cast<size_t>(i)], plain(1e6L, i, 16)));
  for (size_t i = 2; i < 8; ++i)
    CHECK(frequencies[i] == 0);
  const auto divided =
      layerRope(R"({"rope_type":"proportional","rope_theta":1000000,"factor":4})", true);
  REQUIRE(divided.isOk());
  for (int i = 0; i < 8; ++i)
    CHECK(isClose(divided->inverseFrequencies[static_cast<size_t>(i)], plain(1e6L, i, 16) / 4));
}

TEST_CASE("a type of layer has its own parameters, whose unsupported values are named") {
  const auto plainRope = layerRope(R"({"rope_theta":10000})", false);
  REQUIRE(plainRope.isOk());
  CHECK(plainRope->inverseFrequencies == rope(R"({"rope_theta":10000})", 16).inverseFrequencies);
  const auto message = [](const std::string &parameters) {
    return std::string(layerRope(parameters, false).status().message());
  };
  const std::string at = "config.json: key 'rope_parameters.full.";
  CHECK(message(R"({"rope_type":"proportional","rope_theta":1e4})")
            .starts_with(at + "rope_type': found \"proportional\", expected default, linear"));
  CHECK(message(R"({"rope_theta":1e4,"partial_rotary_factor":0.5})")
            .starts_with(at + "partial_rotary_factor': found 0.5, expected 1"));
  CHECK(message(R"({"rope_type":"default"})").starts_with(at + "rope_theta'"));
}

TEST_CASE("the golden llama3 case differs from the plain frequencies") {
  const auto imported =
      moec::importCheckpoint(std::string(MOE_TEST_DATA_DIR) + "/golden/mixtral_llama3");
  REQUIRE(imported.isOk());
  const RopeDescription plainRope = rope(R"({"rope_theta":10000})", 32);
  const std::vector<float> &scaled = imported->description.ropes.at(0).inverseFrequencies;
  CHECK(scaled.front() == plainRope.inverseFrequencies.front());
  CHECK(scaled.back() == plainRope.inverseFrequencies.back() / 8);
}

TEST_CASE("YaRN keeps fast waves, divides slow ones and ramps between, as the reference does") {
  // dim 32, theta 10000: the ramp begins at floor(32 ln(64 / (2 pi 32)) / (2 ln 1e4)), below 0 and
  // so at 0, and ends at ceil(32 ln(64 / (2 pi)) / (2 ln 1e4)) = 5.
  const RopeDescription description =
      rope(R"({"rope_theta":10000,"rope_scaling":{"rope_type":"yarn","factor":4,)"
           R"("original_max_position_embeddings":64}})",
           32);
  for (int i = 0; i < 16; ++i) {
    const long double ramp = std::min(1.0L, i / 5.0L);
    const long double inverse = plain(1e4L, i, 32);
    CHECK(isClose(description.inverseFrequencies[static_cast<size_t>(i)],
                  inverse * (1 - ramp) + inverse / 4 * ramp));
  }
  CHECK(description.attentionFactor == static_cast<float>(0.1 * std::log(4.0) + 1));
}

TEST_CASE("YaRN without truncation ramps between fractions of an index") {
  const RopeDescription description =
      rope(R"({"rope_theta":10000,"rope_scaling":{"rope_type":"yarn","factor":4,"truncate":false,)"
           R"("original_max_position_embeddings":64}})",
           32);
  const long double high =
      32 * std::log(64 / (2 * 3.14159265358979323846264338327950288L)) / (2 * std::log(1e4L));
  CHECK(high < 5);
  for (int i = 0; i < 16; ++i) {
    const long double ramp = std::min(1.0L, i / high);
    const long double inverse = plain(1e4L, i, 32);
    CHECK(isClose(description.inverseFrequencies[static_cast<size_t>(i)],
                  inverse * (1 - ramp) + inverse / 4 * ramp));
  }
}

TEST_CASE("YaRN's factor on cos and sin is explicit, or of mscale and mscale_all_dim") {
  const auto factor = [](const std::string &keys) {
    return rope(R"({"rope_theta":10000,"max_position_embeddings":64,"rope_scaling":{"type":"yarn",)"
                R"("factor":40,)" +
                    keys + R"("beta_fast":32,"beta_slow":1}})",
                16)
        .attentionFactor;
  };
  CHECK(factor(R"("attention_factor":0.5,)") == 0.5f);
  const double logFactor = std::log(40.0);
  CHECK(factor(R"("mscale":0.707,"mscale_all_dim":1.0,)") ==
        doctest::Approx((0.0707 * logFactor + 1) / (0.1 * logFactor + 1)).epsilon(1e-7));
  CHECK(factor(R"("mscale":0.707,"mscale_all_dim":0.707,)") == 1.0f);
}

TEST_CASE("YaRN without a factor or with a ramp the wrong way round is refused") {
  const auto status = [](const std::string &keys) {
    auto config =
        Config::parse("config.json", R"({"rope_theta":10000,"max_position_embeddings":64,)"
                                     R"("rope_scaling":{"type":"yarn")" +
                                         keys + "}}");
    REQUIRE(config.isOk());
    return moec::readRope(config->root(), {.dim = 16}).status();
  };
  CHECK(status("").message().find("factor") != std::string::npos);
  CHECK(status(R"(,"factor":0.5)").code() == moert::StatusCode::kInvalidInput);
  CHECK(status(R"(,"factor":4,"beta_fast":1,"beta_slow":2)").message().find("beta_fast") !=
        std::string::npos);
  CHECK(status(R"(,"factor":4)").isOk());
}

namespace {

std::string refusal(const std::string &json) {
  auto config = Config::parse("config.json", json);
  REQUIRE(config.isOk());
  return std::string(moec::readRope(config->root(), {.dim = 16}).status().message());
}

} // namespace

TEST_CASE("a key inside the rope object has precedence over the same key outside") {
  const std::vector<float> expected = rope(R"({"rope_theta":5000})", 8).inverseFrequencies;
  CHECK(rope(R"({"rope_theta":70,"rope_parameters":{"rope_theta":5000}})", 8).inverseFrequencies ==
        expected);
  CHECK(rope(R"({"rope_theta":70,"rope_scaling":{"type":"default","rope_theta":5000}})", 8)
            .inverseFrequencies == expected);
  CHECK(rope(R"({"rope_theta":5000,"partial_rotary_factor":0.5,)"
             R"("rope_scaling":{"type":"default","partial_rotary_factor":1}})",
             8)
            .inverseFrequencies == expected);
}

TEST_CASE("rope_scaling has precedence over rope_parameters unless it is empty") {
  const std::string parameters = R"("rope_parameters":{"rope_type":"linear","factor":2}})";
  CHECK(rope(R"({"rope_theta":5000,"rope_scaling":{"type":"linear","factor":4},)" + parameters, 8)
            .inverseFrequencies ==
        rope(R"({"rope_theta":5000,"rope_scaling":{"type":"linear","factor":4}})", 8)
            .inverseFrequencies);
  CHECK(rope(R"({"rope_theta":5000,"rope_scaling":{},)" + parameters, 8).inverseFrequencies ==
        rope(R"({"rope_theta":5000,)" + parameters, 8).inverseFrequencies);
  CHECK(rope(R"({"rope_theta":5000,"rope_scaling":{}})", 8).inverseFrequencies ==
        rope(R"({"rope_theta":5000})", 8).inverseFrequencies);
}

TEST_CASE("the length of the training is outside of the object, or inside, or all positions") {
  for (const char *scaling :
       {R"("rope_type":"yarn","factor":4)",
        R"("rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4)"}) {
    CAPTURE(scaling);
    const auto scaled = [&](const std::string &outer, const std::string &inner) {
      const std::string text = moert::strCat(R"({"rope_theta":10000,"max_position_embeddings":64)",
                                             outer, R"(,"rope_scaling":{)", scaling, inner, "}}");
      return rope(text, 32).inverseFrequencies;
    };
    const std::string key = R"(,"original_max_position_embeddings":)";
    CHECK(scaled(key + "16", key + "32") == scaled("", key + "16"));
    CHECK(scaled("", "") == scaled("", key + "64"));
    CHECK(scaled("", "") != scaled("", key + "16"));
  }
}

TEST_CASE("YaRN takes defaults for null and 0, and null as no truncation") {
  const auto yarn = [](const std::string &keys) {
    return rope(R"({"rope_theta":10000,"max_position_embeddings":256,"rope_scaling":)"
                R"({"type":"yarn","original_max_position_embeddings":64)" +
                    keys + "}}",
                32);
  };
  const RopeDescription expected = yarn(R"(,"factor":4)");
  for (const char *keys :
       {R"(,"factor":null)", R"(,"factor":4,"beta_fast":null,"beta_slow":null)",
        R"(,"factor":4,"beta_fast":0,"beta_slow":0)", R"(,"factor":4,"mscale":null)",
        R"(,"factor":4,"attention_factor":null,"mscale_all_dim":null)"}) {
    CAPTURE(keys);
    CHECK(yarn(keys).inverseFrequencies == expected.inverseFrequencies);
    CHECK(yarn(keys).attentionFactor == expected.attentionFactor);
  }
  CHECK(yarn(R"(,"factor":4,"truncate":null)").inverseFrequencies ==
        yarn(R"(,"factor":4,"truncate":false)").inverseFrequencies);
}

TEST_CASE(
    "a factor without a type, and dynamic without alpha or outside of its family, is refused") {
  CHECK(refusal(R"({"rope_theta":10000,"rope_scaling":{"factor":2}})").find("rope_type") !=
        std::string::npos);
  CHECK(refusal(R"({"rope_theta":10000,"rope_scaling":{"type":"dynamic","factor":2}})")
            .find("'rope_scaling.type': found \"dynamic\"") != std::string::npos);
  CHECK(refusal(R"({"rope_theta":10000,"rope_scaling":{"type":"dynamic","alpha":2}})")
            .find("'rope_scaling.type': found \"dynamic\"") != std::string::npos);
}
