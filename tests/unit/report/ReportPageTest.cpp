#include "tests/unit/report/TinyReport.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace moec;

TEST_CASE("an axis has the unit that the table shows its largest number in") {
  Report report;
  Section &section = report.sections.emplace_back();
  const Source source{Origin::kDerived, "a test"};
  section.tables.push_back({.id = "disks",
                            .title = "Disks",
                            .columns = {{"rate", "rate", Unit::kBytesPerSecond, source}},
                            .rows = {{1e8}, {9e8}}});
  section.pictures.push_back({.id = "disks.picture",
                              .title = "Disks",
                              .description = "",
                              .specification = "lines",
                              .table = "disks",
                              .x = "rate",
                              .y = "rate",
                              .isLogarithmic = true});
  CHECK(reportPage(report).find("\"rate, MB/s (logarithmic)\"") != std::string::npos);
  section.tables[0].rows.push_back({2e9});
  CHECK(reportPage(report).find("\"rate, GB/s (logarithmic)\"") != std::string::npos);
}

TEST_CASE("a page has the report's numbers, and escapes its names") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.artifactPath = "a<script>b.moe";
  const Report report = tinyReport(inputs);
  const std::string page = reportPage(report);
  CHECK(page.find("<script>b") == std::string::npos);
  CHECK(page.find("Run of a&lt;script&gt;b.moe") != std::string::npos);
  CHECK(page.find("data-fact=\"verdict.tokens_per_second\"") != std::string::npos);
  CHECK(page.find("http-equiv=Content-Security-Policy") != std::string::npos);
}

TEST_CASE(
    "no string of an artifact, a run or a device becomes markup, script or a terminal's command") {
  const std::string hostile = "</script><script>x()</script>\"'&\x1b[2J\xff\n";
  ReportInputs inputs = tinyInputs({}, roundRobin);
  RunRecord &run = inputs.runs[0];
  inputs.artifactPath = run.path = hostile;
  moert::Plan &plan = inputs.artifact.plans[0];
  plan.name = plan.preset = run.facts.plan = run.facts.preset = hostile;
  run.facts.artifact = run.facts.program = run.facts.io = run.facts.isa = run.facts.end = hostile;
  inputs.artifact.provenance = {{hostile, hostile}};
  inputs.artifact.measured = tinyMeasured();
  moert::Measured &measured = *inputs.artifact.measured;
  measured.metric = measured.solver = measured.quantizer = hostile;
  measured.calibrationTexts[0].name = measured.acceptanceTexts[0].name = hostile;
  inputs.runs.push_back(run);
  const Report report = tinyReport(inputs);

  const std::string page = reportPage(report);
  CHECK(page.find("<script>x") == std::string::npos);
  CHECK(page.find("</script><") == std::string::npos);
  CHECK(page.find('\x1b') == std::string::npos);
  CHECK(page.find('\xff') == std::string::npos);
  CHECK(page.find("&lt;/script&gt;&lt;script&gt;x()") != std::string::npos);
  const std::string text = reportText(report);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\xff') == std::string::npos);
  CHECK(nlohmann::json::parse(reportJson(report))["title"].get<std::string>().starts_with(
      "Two runs"));
  const nlohmann::json trace = nlohmann::json::parse(reportTrace(inputs));
  CHECK(trace["traceEvents"][0]["args"]["name"].get<std::string>().starts_with("</script>"));
}

TEST_CASE("a page of a large model has every n-th layer of a long table") {
  Report report;
  Section &section = report.sections.emplace_back();
  section.id = "experts";
  Table table{.id = "experts.all", .title = "Every expert", .columns = {{"layer", "layer"}}};
  for (uint32_t row = 0; row < 40'000; ++row)
    table.rows.push_back({row / 100});
  section.tables.push_back(table);
  const std::string page = reportPage(report);
  CHECK(page.find("Thinned: the page has the rows of every 5th layer") != std::string::npos);
  CHECK(page.find("data-v=\"395\"") != std::string::npos);
  CHECK(page.find("data-v=\"396\"") == std::string::npos);
}

TEST_CASE("a narrow screen has labels in a wide table's cells, and an origin is said once") {
  Report report;
  Section &section = report.sections.emplace_back();
  const Source source{Origin::kMeasured, "a test"};
  Table table{.id = "t", .title = "Wide", .columns = {}};
  for (const char *id : {"a", "b", "c", "d", "e", "f"})
    table.columns.push_back({id, std::string("label ") + id, Unit::kCount, source});
  table.rows = {{1.0, 2.0, 3.0, 4.0, 5.0, 6.0}};
  section.tables.push_back(table);
  std::string page = reportPage(report);
  CHECK(page.find("<table class=wide data-table=\"t\">") != std::string::npos);
  CHECK(page.find("<td data-label=\"label f\" data-v=\"6\">") != std::string::npos);
  CHECK(page.find("Wide <span class=origin>measured</span>") != std::string::npos);
  CHECK(page.find("label a <span") == std::string::npos);
  section.tables[0].columns[1].source.origin = Origin::kDerived;
  section.tables[0].columns.pop_back();
  section.tables[0].rows[0].pop_back();
  page = reportPage(report);
  CHECK(page.find("class=wide") == std::string::npos);
  CHECK(page.find("label b <span class=origin>derived</span>") != std::string::npos);
}

TEST_CASE("a command is one cell of a page, escaped") {
  Report report;
  Section &section = report.sections.emplace_back();
  const Source source{Origin::kDerived, "a test"};
  section.facts = {{"c", "To try it", "run 'a<b'", Unit::kCommand, source}};
  const std::string page = reportPage(report);
  CHECK(
      page.find(
          "<td data-fact=\"c\">To try it<pre><span>run</span> <span>'a&lt;b'</span></pre></td>") !=
      std::string::npos);
}
