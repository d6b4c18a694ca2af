#include "compiler/inspection/InspectSections.h"
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
  CHECK(shownText(-1e-9, Unit::kFraction) == "0.0%");
  CHECK(shownText(-0.0012, Unit::kFraction) == "-0.12%");
  CHECK(shownText(16.1e6, Unit::kNs) == "16.1 ms");
  CHECK(shownText(1.9e9, Unit::kBytesPerSecond) == "1.90 GB/s");
  CHECK(shownText(100e6, Unit::kBytesPerSecond) == "100 MB/s");
  CHECK(shownText(62.84, Unit::kTokensPerSecond) == "62.8 tokens/s");
  CHECK(shownText(3.0, Unit::kCount) == "3");
  CHECK(fasterText(1.126) == "12.6% faster");
  CHECK(fasterText(0.95) == "5.0% slower");
  CHECK(fasterText(3.21) == "3.2 times as fast");
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

TEST_CASE("the command that repeats a run has its options, quoted for a shell") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.artifactPath = "my model.moe";
  inputs.runs[0].facts.options = {{"--temp=0.5", "--stop=it's"}};
  const auto command = [](const ReportInputs &of) {
    return findFact(tinyReport(of), "provenance.command")->value.text();
  };
  CHECK(command(inputs).starts_with("moert run 'my model.moe' --ids PROMPT -n 31 --threads 1 "));
  CHECK(command(inputs).find(" --memory ") != std::string::npos);
  CHECK(command(inputs).ends_with(" --temp=0.5 '--stop=it'\\''s' --profile RUN.json"));
  inputs.runs[0].facts.options = {{"--memory=25%"}};
  CHECK(command(inputs).find(" --memory ") == std::string::npos);
  inputs.runs[0].facts.options.reset();
  CHECK(command(inputs).find("RUN.json  # add the run's other options") != std::string::npos);
}

TEST_CASE("the verdict has the bytes per token that its facts have") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  for (moert::LayerTotals &layer : inputs.runs[0].decode.layers)
    layer.bytesRead *= 3; // More than the replay reads.
  const Report report = tinyReport(inputs);
  const Fact &fact = *findFact(report, "verdict.bytes_per_token");
  bool isSaid = false;
  for (const std::string &sentence : report.sections[0].sentences)
    isSaid |= sentence.find("of the " + shownText(fact.value, fact.unit)) != std::string::npos;
  CHECK(isSaid);
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

TEST_CASE("the bits of an expert whose down has another width are their mean") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  moert::Slice &slice = inputs.artifact.moeLayers[0].experts[1].slices[0];
  REQUIRE(slice.format.gateUp.kind == moert::WeightKind::kInt4);
  slice.format.down.kind = moert::WeightKind::kInt8;
  const Report report = tinyReport(inputs);
  const Table *table = nullptr;
  for (const Section &section : report.sections)
    if (const Table *found = findTable(section, "experts.all"))
      table = found;
  REQUIRE(table);
  CHECK(table->rows[0][2].number() == 4);
  CHECK(table->rows[1][2].number() == doctest::Approx((4 + 4 + 8) / 3.0));
}

TEST_CASE("a verdict names what predictions for a plan with a miss rule replay") {
  auto sentences = [](const ReportInputs &inputs) {
    std::string all;
    const Report report = makeReport(inputs, {}).value();
    for (const Section &section : report.sections)
      for (const std::string &sentence : section.sentences)
        all += sentence + "\n";
    return all;
  };
  const std::string replayed =
      "Predictions are for the calibration text under the plan's miss rule";
  const std::string waiting = "Predictions are for waiting for every expert";
  ReportInputs inputs = skippingInputs();
  CHECK(sentences(inputs).find(replayed) != std::string::npos);
  inputs.trace = tinyTrace(roundRobin);
  CHECK(sentences(inputs).find(waiting) != std::string::npos);
  for (moert::LayerTotals &layer : inputs.runs[0].decode.layers)
    layer.skipped = 0; // As with --exact.
  CHECK(sentences(inputs).find("Predictions are for") == std::string::npos);
}

TEST_CASE("what a plan's miss rule loses stands beside the loss of the widths") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  const auto sentence = [](const ReportInputs &of) {
    return tinyReport(of).sections[2].sentences[1];
  };
  CHECK(sentence(inputs).find("a miss adds no loss") != std::string::npos);
  moert::Plan &plan = inputs.artifact.plans[0];
  plan.miss.action = moert::MissAction::kSkip;
  CHECK(sentence(inputs).find("was not measured") != std::string::npos);
  plan.loss.emplace();
  plan.loss->metric = "perplexity";
  plan.loss->loss = 0.03;
  inputs.artifact.measured.emplace();
  inputs.artifact.measured->metric = "perplexity";
  inputs.artifact.measured->loss = 0.01;
  const Report report = tinyReport(inputs);
  CHECK(findFact(report, "accuracy.plan_loss")->value.number() == 0.03);
  CHECK(findFact(report, "accuracy.miss_loss")->value.number() == doctest::Approx(0.02));
  const moert::Measured &measured = *inputs.artifact.measured;
  const std::string text =
      boundedLossText("perplexity", measured.loss, measured.upperBound, measured.confidence);
  CHECK(text.find("1.00%, at most ") == 0);
  CHECK(report.sections[2].sentences[0].find(text) != std::string::npos);
}

TEST_CASE("every measured candidate is in the report, with what this run would do with it") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.artifact.measured = tinyMeasured();
  std::vector<moert::MeasuredCandidate> &candidates = inputs.artifact.measured->candidates;
  // Smaller and worse; smaller than that and worse than anything; as small as the chosen one and
  // worse.
  candidates.push_back({"mckp", 3000, 512, 0.03, 0.04, 0.05, {}, false});
  candidates.push_back({"mckp", 3500, 512, 0.9, 0.9, 0.95, {}, false});
  const Report report = tinyReport(inputs);
  const Table &table = *findTable(report.sections[2], "accuracy.candidates");
  std::vector<std::string> marks;
  std::vector<double> gains;
  for (const std::vector<Value> &row : table.rows) {
    marks.push_back(row[0].text());
    gains.push_back(row[10].number());
  }
  CHECK(marks == std::vector<std::string>{"best", "", "chosen, best", "best"});
  CHECK(gains[2] == doctest::Approx(0));
  CHECK(gains[0] > gains[1]);
  CHECK(gains[1] > 0);
  CHECK(gains[3] < 0);
  // The best candidate next in size is advised, with its estimated bound.
  const Table &advice = *findTable(report.sections[1], "change.advice");
  CHECK(std::ranges::any_of(advice.rows, [](const std::vector<Value> &row) {
    return row[0].text() ==
               "more loss allowed: 5.00% instead of 2.00%, experts of 73% of the bytes" &&
           row[4].text().starts_with("moec compile CHECKPOINT --accuracy-loss 5.00%");
  }));
  CHECK(reportPage(report).find("\"limit\":2,") != std::string::npos); // The target, in percent.
  // Resident weights that take the whole pool leave no speed to predict.
  candidates.back().residentBytes += inputs.runs[0].facts.poolPages * inputs.artifact.pageBytes;
  const Report full = tinyReport(inputs);
  size_t unpredicted = 0;
  for (const std::vector<Value> &row : findTable(full.sections[2], "accuracy.candidates")->rows)
    unpredicted += !row[9].isNumber();
  CHECK(unpredicted == 1);
  const Table &texts = *findTable(report.sections[2], "accuracy.texts");
  CHECK(texts.rows[2][4].number() == 0.0125);
  CHECK_FALSE(texts.rows[0][4].isNumber());
}

TEST_CASE("a measured candidate that the run's memory cannot hold has no prediction") {
  ReportInputs inputs = tinyInputs({}, roundRobin); // Two records of each layer have room.
  inputs.artifact.measured = tinyMeasured();
  for (uint64_t expertBytes : {uint64_t(4 * 4096), UINT64_MAX - 512})
    inputs.artifact.measured->candidates.push_back(
        {"uniform", expertBytes, 512, 0.001, 0.001, 0.002, {}, false});
  const Report report = tinyReport(inputs);
  const Table &table = *findTable(report.sections[2], "accuracy.candidates");
  REQUIRE(table.rows.size() == 4);
  CHECK(table.rows[1][9].isNumber());
  for (size_t row : {2, 3}) {
    CHECK_FALSE(table.rows[row][9].isNumber());
    CHECK_FALSE(table.rows[row][10].isNumber());
  }
}

TEST_CASE("more loss is advised only where a measured loss is beyond the target") {
  const auto isAdvised = [](std::optional<double> loss, std::optional<double> bound) {
    ReportInputs inputs = tinyInputs({}, roundRobin);
    inputs.artifact.measured = tinyMeasured(); // The target is 2%.
    inputs.artifact.measured->candidates.push_back(
        {"mckp", 3000, 512, 0.03, loss, bound, {}, false});
    const Report report = tinyReport(inputs);
    return std::ranges::any_of(findTable(report.sections[1], "change.advice")->rows,
                               [](const std::vector<Value> &row) {
                                 return row[0].text().starts_with("more loss allowed");
                               });
  };
  CHECK(isAdvised(0.018, 0.021));
  CHECK_FALSE(isAdvised(0.018, 0.019)); // It failed the acceptance test all the same.
  CHECK_FALSE(isAdvised({}, {}));       // Where items were scored, only the divergence is known.
}

TEST_CASE("the disk's rate and depth are those of the time with reads under way") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  moert::LayerTotals all = inputs.runs[0].decode.sum();
  CHECK(findFact(tinyReport(inputs), "time.queue_depth") == nullptr); // An older program's profile.
  inputs.runs[0].decode.reads = {60, 2'000'000, 5'000'000};
  const Report report = tinyReport(inputs);
  CHECK(findFact(report, "time.queue_depth")->value.number() == doctest::Approx(2.5));
  CHECK(findFact(report, "time.busy_rate")->value.number() ==
        doctest::Approx(double(all.bytesRead) / 2e-3));
  CHECK(findFact(report, "time.reads")->value.number() == doctest::Approx(2));
  CHECK(findFact(report, "prefetch.perfect_tokens_per_second") != nullptr);
}

namespace {

/// A column of a table of the report.
std::vector<double> columnOf(const Report &report, std::string_view tableId, std::string_view id) {
  std::vector<double> numbers;
  for (const Section &section : report.sections)
    if (const Table *table = findTable(section, tableId)) {
      const auto column = std::ranges::find(table->columns, id, &Column::id);
      REQUIRE(column != table->columns.end());
      for (const std::vector<Value> &row : table->rows)
        numbers.push_back(row[size_t(column - table->columns.begin())].number());
    }
  return numbers;
}

} // namespace

TEST_CASE("a token has the budget that held at it") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  moert::RunFacts &facts = inputs.runs[0].facts;
  facts.budgets.resize(1);
  facts.budgets[0].firstToken = 12; // The prompt has 2 tokens.
  facts.budgets[0].budgetBytes = 4096;
  const std::vector<double> budgets = columnOf(tinyReport(inputs), "time.tokens", "budget_bytes");
  REQUIRE(budgets.size() == 30);
  CHECK(budgets[9] == double(facts.budgetBytes));
  CHECK(budgets[10] == 4096);
}

TEST_CASE("a layer's need is what the experts that the run used take, once each") {
  const ReportInputs inputs = tinyInputs({}, alwaysTheSame);
  const std::vector<uint64_t> &records = inputs.facts.recordBytes[0];
  CHECK(columnOf(tinyReport(inputs), "cache.layers", "used_bytes")[0] ==
        double(records[0] + records[1]));
}

TEST_CASE("the perfect cache hits at least as much as the replay") {
  const Report report = tinyReport(tinyInputs({}, roundRobin));
  const double most = findFact(report, "cache.belady_hit_rate")->value.number();
  CHECK(most <= 1);
  CHECK(most >= findFact(report, "cache.replayed_hit_rate")->value.number());
}

TEST_CASE("prefetches that were not used waste bytes of the mean expert") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.runs[0].decode.layers[inputs.artifact.moeLayers[0].layer].cancelled = 15;
  double mean = 0;
  for (uint64_t bytes : inputs.facts.recordBytes[0])
    mean += double(bytes) / double(inputs.facts.recordBytes[0].size());
  CHECK(columnOf(tinyReport(inputs), "prefetch.layers", "wasted_bytes")[0] ==
        doctest::Approx(15.0 / 30 * mean));
}

TEST_CASE("two runs are compared, and their sections have different names") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  TinyTimes fast;
  fast.waitNs = 10'000;
  RunRecord other = tinyInputs(fast, roundRobin).runs[0];
  inputs.runs.push_back(other);
  const Report report = tinyReport(inputs);
  REQUIRE(report.sections.size() == 17);
  CHECK(report.sections[0].id == "compare");
  CHECK(report.sections[0].sentences[0].find("as fast as A: ") != std::string::npos);
  CHECK(report.sections[0].sentences[0].find("in waiting for reads, ") != std::string::npos);
  CHECK(report.sections[1].id == "a.verdict");
  CHECK(findFact(report, "b.verdict.token_ns") != nullptr);
}

TEST_CASE("a comparison has what the first report predicts for the second run's memory") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  const Report alone = tinyReport(inputs);
  const std::vector<Value> &largest = findTable(alone.sections[1], "change.budgets")->rows.back();
  RunRecord other = inputs.runs[0];
  other.facts.accountedBytes = static_cast<uint64_t>(largest[0].number());
  inputs.runs.push_back(other);
  const std::string promise =
      "A's report predicts " + shownText(largest[3], Unit::kTokensPerSecond);
  const auto isSaid = [&] {
    return std::ranges::any_of(
        tinyReport(inputs).sections[0].sentences,
        [&](const std::string &sentence) { return sentence.starts_with(promise); });
  };
  CHECK(isSaid());
  inputs.runs[1].facts.threads += 1;
  CHECK_FALSE(isSaid());
}

TEST_CASE("a forecast, a target and a setting are not measured") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  moert::Forecast &forecast = inputs.artifact.plans[0].forecast.emplace();
  forecast.tokenNs = 1000;
  forecast.origin = Origin::kMeasured;
  inputs.artifact.measured = tinyMeasured();
  const Report report = tinyReport(inputs);
  CHECK(findFact(report, "verdict.forecast_tokens_per_second")->source.origin == Origin::kDerived);
  CHECK(findFact(report, "cache.forecast_hit_rate")->source.origin == Origin::kDerived);
  for (const char *id : {"accuracy.target", "accuracy.solver", "accuracy.quantizer"})
    CHECK_MESSAGE(findFact(report, id)->source.origin == Origin::kStated, id);
  CHECK(findFact(report, "accuracy.loss")->source.origin == Origin::kMeasured);
}

namespace {

bool hasPicture(const Report &report, std::string_view id) {
  return std::ranges::any_of(report.sections, [&](const Section &section) {
    return std::ranges::find(section.pictures, id, &Picture::id) != section.pictures.end();
  });
}

} // namespace

TEST_CASE("nothing is drawn where a picture would show nothing") {
  ReportInputs inputs = tinyInputs({}, alwaysTheSame);
  CHECK(hasPicture(tinyReport(inputs), "experts.run.picture"));
  CHECK(hasPicture(tinyReport(inputs), "time.rate.picture"));
  for (moert::LayerTotals &layer : inputs.runs[0].decode.layers)
    layer.bytesRead = 0;
  CHECK_FALSE(hasPicture(tinyReport(inputs), "time.rate.picture"));
  CHECK_FALSE(hasPicture(tinyReport(inputs), "time.depth.picture"));
  CHECK(hasPicture(tinyReport(inputs), "experts.hit_rate.picture"));
  // A cache of this size never holds what is needed in turn.
  CHECK_FALSE(hasPicture(tinyReport(tinyInputs({}, roundRobin)), "experts.hit_rate.picture"));
}

TEST_CASE(
    "a run with room for every expert is one row of the budgets, and less memory is advised") {
  TinyTimes times;
  times.waitNs = 0;
  ReportInputs inputs = tinyInputs(times, alwaysTheSame);
  moert::Plan &plan = inputs.artifact.plans[0];
  const moert::CacheShape shape = moert::cacheShapeOf(inputs.artifact);
  for (size_t l = 0; l < shape.layers.size(); ++l)
    plan.quotaPages[l] = static_cast<uint32_t>(shape.layers[l].allPages);
  moert::RunFacts &facts = inputs.runs[0].facts;
  facts.poolPages = moert::largestPoolPages(shape);
  facts.accountedBytes = facts.poolPages * inputs.artifact.pageBytes + 4096;
  facts.budgetBytes = facts.availableBytes = facts.accountedBytes;
  const Report report = tinyReport(inputs);
  const Table &budgets = *findTable(report.sections[1], "change.budgets");
  CHECK(budgets.rows.back()[0].number() == double(facts.accountedBytes));
  CHECK(budgets.rows.back()[1].text() == "this run");
  CHECK(budgets.rows[budgets.rows.size() - 2][0].number() < double(facts.accountedBytes));
  CHECK(std::ranges::any_of(report.sections[1].sentences, [](const std::string &sentence) {
    return sentence.starts_with("Less memory would do: ");
  }));
  // All of the time is computing, and what could be saved of it is not known.
  CHECK_FALSE(findTable(report.sections[0], "verdict.causes")->rows[0][1].isNumber());
}

TEST_CASE("the verdict ends with the best change, and its parts have words for names") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.runs[0].decode.partNs[3] = 1000;
  const auto verdict = [&] { return tinyReport(inputs).sections[0].sentences[0]; };
  CHECK(verdict().find(" Best change with the disk as it is: ") != std::string::npos);
  inputs.runs[0].facts.availableBytes = uint64_t(1) << 30;
  CHECK(verdict().find(" Best change: more memory: ") != std::string::npos);
  const Report report = tinyReport(inputs);
  const Table &parts = *findTable(report.sections[0], "verdict.parts");
  CHECK(std::ranges::any_of(parts.rows, [](const std::vector<Value> &row) {
    return row[0].text() == "attention products";
  }));
}

TEST_CASE("a peak below a budget that is all taken is explained") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  moert::RunFacts &facts = inputs.runs[0].facts;
  CHECK(findFact(tinyReport(inputs), "time.fixed_bytes") == nullptr);
  facts.peakMemoryBytes = facts.accountedBytes / 2;
  CHECK(findFact(tinyReport(inputs), "time.fixed_bytes")->value.number() ==
        double(facts.accountedBytes - facts.poolPages * inputs.artifact.pageBytes));
  facts.budgetBytes = 2 * facts.accountedBytes;
  CHECK(findFact(tinyReport(inputs), "time.fixed_bytes") == nullptr);
}

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

TEST_CASE("a trace has a span per step, and in it one per layer") {
  const ReportInputs inputs = tinyInputs({}, roundRobin);
  const nlohmann::json trace = nlohmann::json::parse(reportTrace(inputs));
  size_t steps = 0, layers = 0;
  double waits = 0;
  const std::set<std::string> phases = {"M", "X", "C"};
  for (const nlohmann::json &event : trace["traceEvents"]) {
    const std::string name = event["name"], phase = event["ph"];
    CHECK(phases.contains(phase));
    CHECK((event["pid"].is_number_unsigned() && event["tid"].is_number_unsigned()));
    CHECK(event["ts"].get<double>() >= 0);
    CHECK(event.contains("dur") == (phase == "X"));
    CHECK(event["args"].is_object());
    steps += name.starts_with("token ");
    layers += name.starts_with("layer ");
    waits += name == "waiting for reads" ? event["dur"].get<double>() : 0;
  }
  CHECK(steps == 30);
  CHECK(layers == 60);
  CHECK(waits * 1000 == doctest::Approx(double(inputs.runs[0].decode.sum().waitNs)));
}
