#include "compiler/search/KeptRows.h"

#include "runtime/base/RandomStream.h"
#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

using namespace moec;
using namespace moert;

constexpr uint32_t kRows = 24;
constexpr uint32_t kLargeVocabulary = 20000;

/// Logits like a language model's: a few likely tokens and a long tail.
static std::vector<float> rowOf(RandomStream &random, uint32_t vocabulary) {
  std::vector<float> row(vocabulary);
  for (float &logit : row)
    logit = float(-1.2 * std::log(random.nextUnit() + 1e-9));
  return row;
}

/// What a quantized model makes of them.
static std::vector<float> changed(RandomStream &random, std::vector<float> row, double by) {
  for (float &logit : row)
    logit += float(by * (random.nextUnit() - 0.5));
  return row;
}

namespace {

struct Rows {
  explicit Rows(uint32_t vocabulary, double by = 0.6, uint32_t rows = kRows) {
    RandomStream random(7);
    for (uint32_t i = 0; i < rows; ++i) {
      reference.push_back(rowOf(random, vocabulary));
      candidate.push_back(changed(random, reference.back(), by));
      targets.push_back(int32_t(random.nextBelow(vocabulary)));
    }
    auto kept = KeptRows::open(path, vocabulary, KeptRows::Use::kRecord);
    REQUIRE(kept.isOk());
    for (uint32_t i = rows; i-- > 0;) { // In any order.
      auto score = (*kept)->score(i, reference[i], targets[i]);
      REQUIRE(score.isOk());
      CHECK(score->lossNats == scoreRow(reference[i], {}, targets[i])->lossNats);
    }
  }

  std::unique_ptr<KeptRows> replayed() const {
    return KeptRows::open(path, uint32_t(reference[0].size()), KeptRows::Use::kReplay).value();
  }
  RowScore expected(uint32_t i) const { return *scoreRow(candidate[i], reference[i], targets[i]); }

  TemporaryDirectory directory;
  std::string path = directory.path("rows");
  std::vector<std::vector<float>> reference, candidate;
  std::vector<int32_t> targets;
};

} // namespace

TEST_CASE("a row of a small vocabulary scores like a computed one, bit for bit") {
  for (uint32_t vocabulary : {5u, kWholeRow}) {
    const Rows rows(vocabulary);
    auto kept = rows.replayed();
    for (uint32_t i = 0; i < kRows; ++i) {
      const RowScore score = *kept->score(i, rows.candidate[i], rows.targets[i]),
                     expected = rows.expected(i);
      CHECK(score.lossNats == expected.lossNats);
      CHECK(score.referenceLossNats == expected.referenceLossNats);
      CHECK(score.klNats == expected.klNats);
      CHECK(score.agrees == expected.agrees);
    }
  }
}

TEST_CASE("losses and agreement beside rows of a large vocabulary are exact") {
  const Rows rows(kLargeVocabulary);
  auto kept = rows.replayed();
  uint32_t agreeing = 0;
  for (uint32_t i = 0; i < kRows; ++i) {
    const RowScore score = *kept->score(i, rows.candidate[i], rows.targets[i]),
                   expected = rows.expected(i);
    CHECK(score.lossNats == expected.lossNats);
    CHECK(score.referenceLossNats == expected.referenceLossNats);
    CHECK(score.agrees == expected.agrees);
    agreeing += score.agrees;
  }
  CHECK(agreeing > 0);
}

TEST_CASE("the divergence from rows of a large vocabulary is within 1% over a hundred rows") {
  for (double by : {0.3, 0.6, 1.5}) {
    constexpr uint32_t kSome = 100;
    const Rows rows(kLargeVocabulary, by, kSome);
    auto kept = rows.replayed();
    double kl = 0, expected = 0;
    for (uint32_t i = 0; i < kSome; ++i) {
      kl += kept->score(i, rows.candidate[i], rows.targets[i])->klNats;
      expected += rows.expected(i).klNats;
    }
    CAPTURE(by);
    CHECK(kl == doctest::Approx(expected).epsilon(0.01));
  }
}

TEST_CASE("the reference's own rows diverge by less than a code") {
  const Rows rows(kLargeVocabulary);
  auto kept = rows.replayed();
  for (uint32_t i = 0; i < kRows; ++i)
    CHECK(std::fabs(kept->score(i, rows.reference[i], rows.targets[i])->klNats) <
          0.5 / kCodesPerNat);
}

TEST_CASE("a row of a large vocabulary takes 3 KiB") {
  const Rows rows(kLargeVocabulary);
  CHECK(KeptRows::bytesOf(kLargeVocabulary) == 3088);
  CHECK(std::filesystem::file_size(rows.path) == kRows * KeptRows::bytesOf(kLargeVocabulary));
}

TEST_CASE("a file that ends early is refused with the row, and so is a token that is none") {
  const Rows rows(kLargeVocabulary);
  const uint64_t rowBytes = KeptRows::bytesOf(kLargeVocabulary);
  std::filesystem::resize_file(rows.path, 6 * rowBytes - 1);
  auto kept = rows.replayed();
  CHECK(kept->score(4, rows.candidate[4], rows.targets[4]).isOk());
  const Status status = kept->score(5, rows.candidate[5], rows.targets[5]).status();
  CHECK(status.message().find("row 5: ") != std::string::npos);
  {
    std::fstream file(rows.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(std::streamoff(4 * rowBytes + 16));
    file.write("\xff\xff\xff\xff", 4);
  }
  CHECK(kept->score(4, rows.candidate[4], rows.targets[4])
            .status()
            .message()
            .find("has token 4294967295, expected 0 to 19999") != std::string::npos);
}
