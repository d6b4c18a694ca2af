// A stage alone: how texts are divided, and which probability of error the tests get.
#include "compiler/accuracy/SearchMaterial.h"
#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

using namespace moec;
using namespace moert;

namespace {

constexpr uint32_t kWindow = 32;

using Documents = std::vector<std::vector<int32_t>>;

/// Documents of one window each, whose token ids begin at `first` and are all different.
Documents documentsOf(int32_t first, size_t windows) {
  Documents documents(windows, std::vector<int32_t>(kWindow));
  for (std::vector<int32_t> &document : documents) {
    std::iota(document.begin(), document.end(), first);
    first += kWindow;
  }
  return documents;
}

SearchText textOf(std::string name, uint64_t hash, const Documents &documents) {
  SearchText text;
  text.name = std::move(name);
  text.hash = hash;
  text.windows = cutWindows(documents, {}, kWindow);
  return text;
}

struct MaterialFixture {
  MaterialFixture() {
    request.outputPath = directory.path("out.moe");
    request.acceptanceLogPath = directory.path("tests.jsonl");
    request.target = 0.02;
    request.amounts.windowTokens = kWindow;
    checkpoint.sample = 7;
    info.windowTokens = kWindow;
    info.tokens.resize(kWindow); // All zero: of no text.
  }

  CompileTexts texts(bool hasAcceptance) const {
    CompileTexts made;
    made.calibration.push_back(textOf("search.txt", 1, documentsOf(1000, 400)));
    if (hasAcceptance)
      made.acceptance.push_back(textOf("acceptance.txt", 2, documentsOf(100000, 40)));
    return made;
  }

  SearchMaterial choose(bool hasAcceptance = true) { return choose(texts(hasAcceptance)); }

  SearchMaterial choose(const CompileTexts &given) {
    auto chosen = chooseSearchMaterial(request, checkpoint, given, info, session);
    REQUIRE_MESSAGE(chosen.isOk(), chosen.status().message());
    return std::move(chosen).value();
  }

  Result<AcceptanceTurn> take() { return take(texts(true)); }
  Result<AcceptanceTurn> take(const CompileTexts &given) {
    auto work = WorkDirectory::open(request.outputPath, LeftWork::kRemove);
    REQUIRE(work.isOk());
    return takeAcceptanceLevels(request, checkpoint, 0, choose(given), *work, session);
  }

  TemporaryDirectory directory;
  AccurateCompileRequest request;
  CheckpointHash checkpoint;
  CalibrationInfo info;
  std::string said;
  moec::Session session{nullptr, nullptr, [this](std::string_view line) { said += line; }};
};

} // namespace

TEST_CASE_FIXTURE(MaterialFixture, "acceptance texts are what is accepted on") {
  const SearchMaterial material = choose();
  CHECK(!material.windows.isSetAside);
  REQUIRE(material.acceptedOn.size() == 1);
  CHECK(material.acceptedOn[0].name == "acceptance.txt");
  CHECK(material.acceptedCount() == 40);
  CHECK(said.empty());
}

TEST_CASE_FIXTURE(MaterialFixture, "without acceptance texts, units are set aside and reported") {
  const SearchMaterial material = choose(/*hasAcceptance=*/false);
  CHECK(material.windows.isSetAside);
  REQUIRE(material.acceptedOn.size() == 1);
  CHECK(material.acceptedOn[0].name == "search.txt");
  CHECK(said.find(std::to_string(material.acceptedCount()) + " windows") != std::string::npos);
}

TEST_CASE_FIXTURE(MaterialFixture, "what gives the search more windows is known") {
  CHECK(choose().moreWindows == "more in --calibration-text");
  request.amounts.searchWindows = 19;
  request.amounts.probeWindows = 4;
  const SearchMaterial material = choose();
  CHECK(material.windows.searchWindows() == 19);
  CHECK(material.moreWindows == "--search-windows 20");
  CHECK(said.find("the search has 19 windows, and a bound takes 20: widths are ordered by their "
                  "divergence") != std::string::npos);
}

TEST_CASE_FIXTURE(MaterialFixture,
                  "measurements are reused with another target and no other change") {
  const uint64_t fingerprint = choose().fingerprint;
  request.target = 0.05;
  CHECK(choose().fingerprint == fingerprint);
  request.method = QuantizeMethod::kNearest;
  CHECK(choose().fingerprint != fingerprint);
  request.method = QuantizeMethod::kGptq;
  request.bits = 4; // Its only option is another width than the first of the search.
  const uint64_t ofFour = choose().fingerprint;
  CHECK(ofFour != fingerprint);
  request.passes.downBits = 6;
  CHECK(choose().fingerprint != ofFour);
  request.bits.reset();
  request.passes.downBits = 0;
  info.tokens[3] = 1;
  CHECK(choose().fingerprint != fingerprint);
}

TEST_CASE_FIXTURE(MaterialFixture,
                  "an equal compile keeps its number, another target is the next one") {
  Result<AcceptanceTurn> first = take();
  REQUIRE(first.isOk());
  CHECK(first->compile == 1);
  CHECK(take()->compile == 1);
  request.target = 0.05;
  Result<AcceptanceTurn> second = take();
  REQUIRE(second.isOk());
  CHECK(second->compile == 2);
  CHECK(second->levels.of(AcceptanceChain::kMain) < first->levels.of(AcceptanceChain::kMain));
}

TEST_CASE_FIXTURE(MaterialFixture,
                  "an added document, another order or a copy begins no new count") {
  Documents documents = documentsOf(100000, 40);
  uint64_t hash = 10;
  uint32_t compiles = 0;
  auto next = [&] { // Another target each time, in a file of other bytes.
    request.target = 0.01 * ++compiles;
    CompileTexts given = texts(false);
    given.acceptance.push_back(textOf("acceptance.txt", ++hash, documents));
    return take(given)->compile;
  };
  CHECK(next() == 1);
  documents.push_back(documentsOf(200000, 1).front());
  CHECK(next() == 2);
  std::reverse(documents.begin(), documents.end());
  CHECK(next() == 3);
  documents.resize(1);
  for (const std::vector<int32_t> &other : documentsOf(300000, 39))
    documents.push_back(other);
  CHECK(next() == 3); // Document 200000 was tested twice before.
  documents = documentsOf(400000, 40);
  CHECK(next() == 1);
  CHECK(said.find("compile 3 that tests this checkpoint on these documents") != std::string::npos);
}

TEST_CASE_FIXTURE(MaterialFixture, "other acceptance texts keep what the search has measured") {
  const uint64_t fingerprint = choose().fingerprint;
  CompileTexts other = texts(false);
  other.acceptance.push_back(textOf("other.txt", 3, documentsOf(500000, 30)));
  CHECK(choose(other).fingerprint == fingerprint);
}

TEST_CASE_FIXTURE(MaterialFixture, "used-up texts are refused, and the work directory is kept") {
  for (uint32_t compile = 1; compile <= kMaxCompilesOfText; ++compile) {
    request.target = 0.01 * compile;
    REQUIRE(take().isOk());
  }
  CHECK(!std::filesystem::exists(WorkDirectory::pathOf(request.outputPath)));
  request.target = 0.5;
  const Status refused = take().status();
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message().find(request.acceptanceLogPath) != std::string::npos);
  CHECK(std::filesystem::exists(WorkDirectory::pathOf(request.outputPath)));
}
