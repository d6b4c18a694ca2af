#include "compiler/report/MakeReport.h"
#include "compiler/report/ReportSections.h"

#include "tests/unit/report/TinyRun.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <set>

using namespace moec;

namespace {

Report tinyReport(ReportInputs inputs) {
  inputs.trace = tinyTrace(roundRobin);
  auto report = makeReport(inputs, {});
  REQUIRE_MESSAGE(report.isOk(), report.status().message());
  return std::move(report).value();
}

} // namespace

TEST_CASE("numbers are shown with their units") {
  CHECK(shownText(1536.0 * 1024, Unit::kBytes) == "1.50 MiB");
  CHECK(shownText(0.625, Unit::kFraction) == "62.5%");
  CHECK(shownText(16.1e6, Unit::kNs) == "16.1 ms");
  CHECK(shownText(1.9e9, Unit::kBytesPerSecond) == "1.90 GB/s");
  CHECK(shownText(100e6, Unit::kBytesPerSecond) == "100 MB/s");
  CHECK(shownText(62.84, Unit::kTokensPerSecond) == "62.8 tokens/s");
  CHECK(shownText(3.0, Unit::kCount) == "3");
  CHECK(shownText(Value(), Unit::kCount) == "-");
  CHECK(shownText(std::numeric_limits<double>::infinity(), Unit::kNs) == "-");
}

TEST_CASE("a report has its sections in order, and every number has an origin") {
  const Report report = tinyReport(tinyInputs({}, roundRobin));
  std::vector<std::string> ids;
  std::set<std::string> facts;
  for (const Section &section : report.sections) {
    ids.push_back(section.id);
    for (const Fact &fact : section.facts) {
      CHECK_MESSAGE(!fact.source.from.empty(), fact.id);
      CHECK_MESSAGE(facts.insert(fact.id).second, fact.id);
    }
    for (const Table &table : section.tables) {
      for (const std::vector<Value> &row : table.rows)
        CHECK_MESSAGE(row.size() == table.columns.size(), table.id);
      for (size_t i = 0; i < table.columns.size(); ++i)
        if (table.columns[i].unit != Unit::kNone)
          CHECK_MESSAGE(!table.columns[i].source.from.empty(), table.id, " ", table.columns[i].id);
    }
    for (const Picture &picture : section.pictures)
      CHECK_MESSAGE(findTable(section, picture.table) != nullptr, picture.id);
  }
  CHECK(ids == std::vector<std::string>{"verdict", "change", "accuracy", "experts", "cache",
                                        "prefetch", "time", "provenance"});
}

TEST_CASE("the JSON has the facts and tables of the report") {
  const Report report = tinyReport(tinyInputs({}, roundRobin));
  const nlohmann::json json = nlohmann::json::parse(reportJson(report));
  REQUIRE(json["sections"].size() == report.sections.size());
  for (size_t s = 0; s < report.sections.size(); ++s) {
    const Section &section = report.sections[s];
    const nlohmann::json &of = json["sections"][s];
    REQUIRE(of["facts"].size() == section.facts.size());
    for (size_t i = 0; i < section.facts.size(); ++i)
      if (section.facts[i].value.isNumber())
        CHECK(of["facts"][i]["value"].get<double>() ==
              doctest::Approx(section.facts[i].value.number()).epsilon(1e-12));
    for (size_t t = 0; t < section.tables.size(); ++t)
      CHECK(of["tables"][t]["rows"].size() == section.tables[t].rows.size());
  }
}

TEST_CASE("the text has the verdict, and escapes control characters of names") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.artifactPath = "evil\x1b[31m.moe";
  const std::string text = reportText(tinyReport(inputs));
  CHECK(text.find("The disk holds this run back: ") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("choices that the calibration text explains are no drift") {
  const Report like = tinyReport(tinyInputs({}, roundRobin));
  const Report unlike = tinyReport(tinyInputs({}, alwaysTheSame));
  CHECK(findFact(like, "experts.drift")->value.number() < 0.05);
  CHECK(findFact(unlike, "experts.drift")->value.number() == doctest::Approx(0.5));
}

TEST_CASE("hits by expert add up to the replayed hit rate") {
  const Report report = tinyReport(tinyInputs({}, roundRobin));
  double used = 0, found = 0;
  for (const Section &section : report.sections)
    if (const Table *table = findTable(section, "experts.all"))
      for (const std::vector<Value> &row : table->rows)
        if (row[6].isNumber()) {
          used += row[4].number();
          found += row[4].number() * row[6].number();
        }
  CHECK(found / used ==
        doctest::Approx(findFact(report, "cache.replayed_hit_rate")->value.number()).epsilon(1e-3));
}
