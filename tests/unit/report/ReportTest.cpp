#include "compiler/inspection/InspectSections.h"
#include "compiler/report/ReportSections.h"
#include "compiler/report/TextComparison.h"

#include "tests/unit/report/TinyReport.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <set>

using namespace moec;

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

TEST_CASE("a report has lines of at most 80 columns, or as many as there are") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.runs[0].facts.availableBytes = uint64_t(1) << 30;
  inputs.artifact.measured = tinyMeasured();
  inputs.runs.push_back(inputs.runs[0]);
  const Report report = tinyReport(inputs);
  for (size_t columns : {60, 80, 120}) {
    const std::string text = reportText(report, columns);
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      const std::string line = text.substr(at, text.find('\n', at) - at);
      CHECK_MESSAGE(line.size() <= columns, line);
    }
  }
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
  inputs.runs[0].facts.promptFile = "my ids";
  CHECK(command(inputs).starts_with("moert run 'my model.moe' --ids 'my ids' -n 31 "));
  inputs.runs[0].facts.options.reset();
  CHECK(findFact(tinyReport(inputs), "provenance.command")
            ->label.starts_with("To repeat the run, with its other options"));
}

TEST_CASE("the command that repeats a run whose prompt was typed has -p") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.runs[0].facts.promptChecksum = 1;
  const auto command = [&inputs] {
    return findFact(tinyReport(inputs), "provenance.command")->value.text();
  };
  CHECK(command().starts_with("moert run tiny.moe -p PROMPT -n 31 "));
  inputs.runs[0].facts.promptFile = "prompt.txt";
  CHECK(command().starts_with("moert run tiny.moe -f prompt.txt -n 31 "));
}

TEST_CASE("a text with other experts costs time, saves it or takes the same") {
  TextComparison text;
  text.calibration.tokenNs = 2e6;
  text.run.tokenNs = 3e6;
  CHECK(differenceText(text) == "the difference costs 1.00 ms per token");
  text.run.tokenNs = 1e6;
  CHECK(differenceText(text) == "the difference saves 1.00 ms per token");
  text.run.tokenNs = 2e6 + 1;
  CHECK(differenceText(text) == "other experts, but the same time");
}

TEST_CASE("the verdict has the bytes per token that its facts have") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  for (moert::LayerTotals &layer : inputs.runs[0].decode.layers)
    layer.bytesRead *= 3; // More than the replay reads.
  const Report report = tinyReport(inputs);
  const Fact &fact = *findFact(report, "verdict.bytes_per_token");
  bool isSaid = false;
  for (const std::string &sentence : report.sections[0].sentences)
    isSaid |= sentence.find("waits for " + shownText(fact.value, fact.unit)) != std::string::npos;
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
  const std::string text = boundedLossText(measured);
  CHECK(text.find("1.00%, at most ") == 0);
  CHECK(report.sections[2].sentences[0].find(text) != std::string::npos);
}

TEST_CASE("a target of a quantile is held against its bound") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.artifact.measured = tinyMeasured();
  inputs.artifact.measured->target = 0;
  inputs.artifact.measured->quantile = {0.9, 0.0225, 0.03};
  const Report report = tinyReport(inputs);
  CHECK(findFact(report, "accuracy.quantile_target")->value.number() == 0.03);
  CHECK(findFact(report, "accuracy.quantile_upper_bound")->value.number() == 0.0225);
  CHECK(report.sections[2].sentences[0].find("Accuracy held: ") == 0);
  CHECK(report.sections[2].sentences[0].find(
            "target: at least 90% of units lose at most 3.00% each") != std::string::npos);
  inputs.artifact.measured->quantile->target = 0.02;
  CHECK(tinyReport(inputs).sections[2].sentences[0].find("Accuracy did not hold: ") == 0);
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
           "more loss allowed: 5.00% instead of 2.00%, experts of 73% of the bytes";
  }));
  CHECK(std::ranges::any_of(report.sections[1].facts, [](const Fact &fact) {
    return fact.unit == Unit::kCommand &&
           fact.value == Value("moec compile CHECKPOINT -o NEW.moe --accuracy-loss 5.00%");
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
}

namespace {

/// Checks that a verdict is short, and returns its best change and the command that tries it.
std::string changeOf(const ReportInputs &inputs) {
  const Report report = makeReport(inputs, {}).value();
  const std::vector<std::string> &sentences = report.sections[0].sentences;
  REQUIRE(sentences.size() == 2);
  for (const std::string &sentence : sentences) {
    CHECK_MESSAGE(size_t(std::ranges::count(sentence, ' ')) < kMostWords, sentence);
    CHECK(sentence.ends_with("."));
  }
  const Fact &first = report.sections[0].facts.front();
  return sentences[1] + (first.unit == Unit::kCommand ? " " + first.value.text() : "");
}

} // namespace

TEST_CASE("a verdict is two sentences and the command of the best change") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  CHECK(changeOf(inputs).starts_with("Best change: "));
  inputs.trace = tinyTrace(alwaysTheSame);
  CHECK(changeOf(inputs).starts_with("Best change: "));
  inputs.runs[0].facts.availableBytes = uint64_t(1) << 30;
  const std::string change = changeOf(inputs);
  CHECK(change.starts_with("Best change: more memory: "));
  CHECK(change.find(". moert run tiny.moe --ids PROMPT -n 31 ") != std::string::npos);
  TinyTimes times;
  times.waitNs = 0;
  CHECK_FALSE(changeOf(tinyInputs(times, alwaysTheSame)).empty());
  CHECK_FALSE(changeOf(skippingInputs()).empty());
}

TEST_CASE("a token's parts have words for names") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.runs[0].decode.partNs[3] = 1000;
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
