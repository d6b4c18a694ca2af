#include "compiler/accuracy/WidthItems.h"

#include "compiler/accuracy/SearchSummary.h"
#include "tests/unit/pool/PoolFixture.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace moec;
using namespace moert;

namespace {

/// Items over the tiny pool of 8, 6, 4/6, 4, 3 and 2 bits, with two classes of resident matrices.
struct ItemsFixture : PoolFixture {
  ItemsFixture() : pool(filled()) {
    auto profile = CalibrationProfile::open(profilePath);
    REQUIRE(profile.isOk());
    info = (*profile)->info();
  }

  static std::vector<ResidentClass> classes() {
    return {{"attention",
             {{"layer0.query", {64, 32}, WeightKind::kBF16},
              {"layer1.query", {64, 32}, WeightKind::kBF16}}},
            {"head", {{"head", {96, 32}, WeightKind::kF32}}}};
  }

  WidthItems itemsWith(std::vector<ResidentClass> residents) const {
    auto items = WidthItems::create(*pool, pool->grids().size(), info, std::move(residents),
                                    QuantizeMethod::kNearest, passes);
    REQUIRE_MESSAGE(items.isOk(), items.status().message());
    return std::move(items).value();
  }

  size_t experts() const {
    size_t count = 0;
    for (size_t l = 0; l < pool->layers(); ++l)
      count += pool->expertsOf(l);
    return count;
  }

  std::unique_ptr<ExpertPool> pool;
  CalibrationInfo info;
  mlir::moe::CompileOptions passes;
};

} // namespace

TEST_CASE_FIXTURE(ItemsFixture, "every expert is an item with the pool's widths and their bytes") {
  WidthItems made = itemsWith({});
  const WidthSearchInput &input = made.input();
  REQUIRE(input.problem.items.size() == experts());
  CHECK(check(input.problem).isOk());
  size_t item = 0;
  for (size_t l = 0; l < pool->layers(); ++l)
    for (size_t e = 0; e < pool->expertsOf(l); ++e, ++item) {
      const std::vector<WidthOption> &widths = input.problem.items[item].options;
      REQUIRE(widths.size() == 6);
      CHECK(widths[2].bits == doctest::Approx(14.0 / 3)); // 4 bits, down 6.
      for (size_t g = 0; g < widths.size(); ++g) {
        CHECK(widths[g].bits == ExpertWidth(pool->grids()[g]).meanBits());
        CHECK(widths[g].cost == double(pool->payloadBytesOf(l, g)));
        CHECK(widths[g].loss >= pool->expert(l, e).grids[g].squaredError);
      }
      CHECK(input.groups[item] == l);
      CHECK(!input.isProbedDirectly[item]);
    }
}

TEST_CASE_FIXTURE(ItemsFixture, "an error counts as if 8 more tokens of the mean error had come") {
  CalibrationInfo::MoeLayer &layer = info.moeLayers[0];
  WidthItems made = itemsWith({});
  double tokens = 0, errors = 0;
  for (uint64_t count : layer.counts)
    tokens += double(count);
  for (size_t e = 0; e < pool->expertsOf(0); ++e)
    errors += pool->expert(0, e).grids[5].squaredError;
  const double seen = pool->expert(0, 0).grids[5].squaredError;
  CHECK(made.input().problem.items[0].options[5].loss ==
        doctest::Approx(seen + 8 * errors / tokens));
}

TEST_CASE_FIXTURE(ItemsFixture, "an expert's error per token counts for at most 4 medians") {
  std::vector<uint64_t> &counts = info.moeLayers[0].counts;
  auto errorOf = [&](size_t expert) { return pool->expert(0, expert).grids[5].squaredError; };
  REQUIRE(counts.size() >= 3);
  for (size_t e = 0; e < counts.size(); ++e)
    counts[e] = e == 0 ? 1 : 1'000'000;
  std::vector<double> perToken = {errorOf(0)};
  double tokens = 1, errors = 0;
  for (size_t e = 1; e < counts.size(); ++e) {
    perToken.push_back(errorOf(e) / 1e6);
    tokens += 1e6;
    errors += errorOf(e);
  }
  std::sort(perToken.begin(), perToken.end());
  const double most = 4 * perToken[perToken.size() / 2];
  REQUIRE(most < errorOf(0));
  CHECK(itemsWith({}).input().problem.items[0].options[5].loss ==
        doctest::Approx(most + 8 * (errors + most) / tokens));
}

TEST_CASE_FIXTURE(ItemsFixture, "a class of resident matrices is an item of 16, 8 and 4 bits") {
  WidthItems made = itemsWith(classes());
  const WidthSearchInput &input = made.input();
  REQUIRE(input.problem.items.size() == experts() + 2);
  CHECK(check(input.problem).isOk());
  const WidthItem &attention = input.problem.items[experts()];
  CHECK(attention.name == "attention");
  REQUIRE(attention.options.size() == 3);
  CHECK(attention.options[0].bits == 16);
  CHECK(attention.options[1].bits == 8);
  CHECK(attention.options[2].bits == 4);
  CHECK(attention.options[0].cost > attention.options[1].cost);
  CHECK(attention.options[1].cost > attention.options[2].cost);
  // Each is alone in a group after those of the layers.
  for (size_t c = 0; c < 2; ++c) {
    CHECK(input.isProbedDirectly[experts() + c]);
    CHECK(input.groups[experts() + c] == pool->layers() + c);
  }
}

TEST_CASE_FIXTURE(ItemsFixture, "an assignment becomes the pool's grids, expert by expert") {
  WidthItems made = itemsWith(classes());
  WidthAssignment assignment;
  for (size_t i = 0; i < experts(); ++i)
    assignment.push_back(uint32_t(i % 6));
  assignment.insert(assignment.end(), {1, 2});
  GridChoice choice = made.gridsOf(assignment);
  REQUIRE(choice.size() == pool->layers());
  size_t item = 0;
  for (size_t l = 0; l < choice.size(); ++l) {
    REQUIRE(choice[l].size() == pool->expertsOf(l));
    for (uint32_t grid : choice[l])
      CHECK(grid == assignment[item++]);
  }
}

TEST_CASE_FIXTURE(ItemsFixture, "an assignment becomes widths by MoE layer and symbol") {
  WidthItems made = itemsWith(classes());
  WidthAssignment assignment(experts(), 5);
  assignment[0] = 0;
  assignment.insert(assignment.end(), {0, 2});
  const std::vector<std::vector<int32_t>> bits = made.expertBitsOf(assignment);
  REQUIRE(bits.size() == pool->layers());
  std::vector<int32_t> first(pool->expertsOf(0), 2);
  first[0] = 8;
  CHECK(bits[0] == first);
  CHECK(bits[1] == std::vector<int32_t>(pool->expertsOf(1), 2));
  CHECK(made.expertDownBitsOf(assignment).empty());
  CHECK(made.residentBitsOf(assignment) ==
        std::map<std::string, uint32_t>{{"layer0.query", 16}, {"layer1.query", 16}, {"head", 4}});
}

TEST_CASE_FIXTURE(ItemsFixture, "a wider down is a width of its own, in the IR and in summaries") {
  WidthItems made = itemsWith({});
  WidthAssignment assignment(experts(), 4);
  assignment[0] = 1;
  assignment[1] = assignment[experts() - 1] = 2;
  std::vector<int32_t> bits(pool->expertsOf(0), 3), downBits = bits;
  bits[0] = downBits[0] = 6;
  bits[1] = 4;
  downBits[1] = 6;
  CHECK(made.expertBitsOf(assignment)[0] == bits);
  CHECK(made.expertDownBitsOf(assignment)[0] == downBits);
  CHECK(made.expertWidthsOf(assignment)[1].back() == ExpertWidth(4, 6));
  CHECK(widthCounts(assignment, made) == strCat("6 bits: 1, 4/6 bits: 2, 3 bits: ", experts() - 3));
}

TEST_CASE_FIXTURE(ItemsFixture,
                  "bytes of experts and of resident matrices are counted separately") {
  WidthItems made = itemsWith(classes());
  WidthAssignment assignment(experts(), 2);
  assignment.insert(assignment.end(), {1, 1});
  uint64_t expertBytes = 0;
  for (size_t l = 0; l < pool->layers(); ++l)
    expertBytes += pool->expertsOf(l) * pool->payloadBytesOf(l, 2);
  CHECK(made.expertBytesOf(assignment) == expertBytes);
  uint64_t residentBytes = 0;
  for (const ResidentClass &matrices : classes())
    residentBytes += storedBytes(matrices, 8, QuantizeMethod::kNearest, passes).value();
  CHECK(made.residentBytesOf(assignment) == residentBytes);
  CHECK(double(expertBytes + residentBytes) == totalsOf(made.input().problem, assignment).cost);
}
