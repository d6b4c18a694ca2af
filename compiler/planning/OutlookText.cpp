#include "compiler/planning/Outlook.h"

#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"
#include "runtime/base/JsonWriter.h"
#include "runtime/base/Size.h"

#include <algorithm>
#include <cstdio>
#include <optional>

using namespace moert;

namespace moec {

using Align = TextTable::Align;

static std::string percent(double fraction) {
  return fixed(100 * fraction, fraction < 0.1 ? 1 : 0) + "%";
}

static std::string sizesText(const Outlook &outlook, size_t columns) {
  TextTable table(
      {{"bits"}, {"artifact"}, {"resident"}, {"experts"}, {"an expert"}, {"smallest budget"}});
  for (const WidthOutlook &width : outlook.widths)
    table.addRow({std::string(width.option), formatBytes(width.fileBytes),
                  formatBytes(width.residentBytes), formatBytes(width.expertBytes),
                  formatBytes(width.recordBytes), formatBytes(width.smallestBudget)});
  return strCat("sizes, by the experts' --bits, with resident weights at 8 bits:\n",
                table.text(kIndent, columns));
}

static std::vector<std::string> rowOf(const WidthOutlook &width, const BudgetOutlook &budget) {
  const std::string bits(width.option);
  if (!budget.isEnough)
    return {bits, "does not fit"};
  if (!budget.speed)
    return {bits, percent(budget.cachedFraction)};
  const SpeedOutlook &speed = *budget.speed;
  return {bits,
          percent(budget.cachedFraction),
          percent(speed.hitRate),
          formatBytes(static_cast<uint64_t>(speed.bytesPerToken)),
          fixed(speed.tokenNs / 1e6, 2) + " ms",
          fixed(1e9 / speed.tokenNs, 1),
          fixed(1e9 / speed.computeNs, 1)};
}

static std::string budgetText(const Outlook &outlook, size_t index, bool hasSpeed,
                              size_t lineWidth) {
  const std::string &budget = outlook.widths.front().budgets[index].budget;
  const Result<Size> size = parseSize(budget);
  const bool isRelative = size.isOk() && size->fraction; // Other bytes for each width.
  std::vector<TextTable::Column> columns = {{"bits"}, {"in memory"}};
  if (hasSpeed)
    for (const char *heading :
         {"hit rate", "read per token", "time per token", "tokens/s", "tokens/s, all in memory"})
      columns.push_back({heading});
  std::vector<TextTable::Column> shown = columns;
  if (isRelative)
    shown.insert(shown.begin() + 1, {"in all"});
  TextTable table(shown);
  for (const WidthOutlook &width : outlook.widths) {
    std::vector<std::string> row = rowOf(width, width.budgets[index]);
    row.resize(columns.size());
    if (isRelative)
      row.insert(row.begin() + 1, formatBytes(width.budgets[index].budgetBytes));
    table.addRow(row);
  }
  return strCat("\nwith ", budget, ":\n", table.text(kIndent, lineWidth));
}

/// The worst of the speeds' origins; nullopt if no width fits any budget.
static std::optional<Origin> worstOrigin(const Outlook &outlook, Origin SpeedOutlook::*origin) {
  std::optional<Origin> worst;
  for (const WidthOutlook &width : outlook.widths)
    for (const BudgetOutlook &budget : width.budgets)
      if (budget.speed)
        worst = worst ? worseOf(*worst, (*budget.speed).*origin) : (*budget.speed).*origin;
  return worst;
}

/// Where the numbers come from.
static std::string sourceText(const Outlook &outlook, const OutlookRequest &request) {
  if (!request.device)
    return "For a forecast of speed, give --device.";
  const std::optional<Origin> device = worstOrigin(outlook, &SpeedOutlook::deviceOrigin);
  if (!device)
    return "Sizes are derived from config.json.";
  const bool isAssumed = worstOrigin(outlook, &SpeedOutlook::hitOrigin) == Origin::kAssumed;
  return strCat(
      "Sizes are derived from config.json, times per token, at the end of a full context, from the "
      "rates of this device (",
      worstText(*device), "): ", request.device->name, ". ",
      isAssumed ? "Hit rates are assumed to be those of the bundled model with the same fraction "
                  "of experts in memory; a forecast from the model's own routing needs "
                  "calibration: moec compile --calibration-text, then moec plan on the artifact."
                : "Each token uses all experts, so that the hit rate is the fraction that stays "
                  "in memory.");
}

/// "30.53 billion"
static std::string countText(uint64_t parameters) {
  const bool isLarge = parameters >= 1'000'000'000;
  char text[48];
  std::snprintf(text, sizeof(text), "%.2f %s", double(parameters) / (isLarge ? 1e9 : 1e6),
                isLarge ? "billion" : "million");
  return text;
}

std::string outlookText(const Outlook &outlook, const OutlookRequest &request, size_t columns) {
  const std::string heads[] = {
      strCat(outlook.modelType, ": ", outlook.layers, " layers, ", outlook.moeLayers,
             " with routed experts, ", outlook.topK, " of ", outlook.experts, " for each token"),
      strCat("parameters: ", countText(outlook.parameters.all), ", ",
             countText(outlook.parameters.experts), " of them in experts; ",
             countText(outlook.parameters.active), " active for each token"),
      strCat("context: ", outlook.contextTokens, " tokens, ", formatBytes(outlook.kvBytes),
             " of keys and values", outlook.kvBits ? strCat(" in ", outlook.kvBits, " bits") : "",
             outlook.stateBytes
                 ? strCat(", and ", formatBytes(outlook.stateBytes), " of recurrent states")
                 : "")};
  std::string text;
  for (const std::string &head : heads)
    text += paragraph(head, "", columns);
  text += "\n" + sizesText(outlook, columns);
  for (size_t i = 0; i < request.budgets.size(); ++i)
    text += budgetText(outlook, i, request.device, columns);
  const bool helps = std::ranges::any_of(outlook.widths, [](const WidthOutlook &width) {
    return std::ranges::any_of(width.budgets, &BudgetOutlook::fitsShorterContext);
  });
  if (helps)
    text += "\nA shorter context (--context) makes some of these budgets large enough.\n";
  return text + "\n" + paragraph(sourceText(outlook, request), "", columns);
}

static void writeSpeed(JsonWriter &json, const SpeedOutlook &speed) {
  json.key("hit_rate").number(speed.hitRate);
  json.key("hit_rate_origin").string(nameOf(speed.hitOrigin));
  json.key("bytes_read_per_token").number(speed.bytesPerToken);
  json.key("token_ns").number(speed.tokenNs);
  json.key("compute_ns").number(speed.computeNs);
  json.key("device_origin").string(nameOf(speed.deviceOrigin));
}

static void writeBudget(JsonWriter &json, const BudgetOutlook &budget) {
  json.beginObject();
  json.key("budget").string(budget.budget);
  json.key("fits").boolean(budget.isEnough);
  if (budget.isEnough) {
    json.key("budget_bytes").number(budget.budgetBytes);
    json.key("cached_fraction").number(budget.cachedFraction);
  }
  if (budget.speed)
    writeSpeed(json, *budget.speed);
  json.endObject();
}

std::string outlookJson(const Outlook &outlook, const OutlookRequest &request) {
  std::string out;
  JsonWriter json(out);
  json.beginObject();
  json.key("model_type").string(outlook.modelType);
  json.key("layers").number(outlook.layers);
  json.key("moe_layers").number(outlook.moeLayers);
  json.key("experts").number(outlook.experts);
  json.key("top_k").number(outlook.topK);
  json.key("parameters").number(outlook.parameters.all);
  json.key("expert_parameters").number(outlook.parameters.experts);
  json.key("active_parameters").number(outlook.parameters.active);
  json.key("context_tokens").number(outlook.contextTokens);
  json.key("kv_bytes").number(outlook.kvBytes);
  json.key("kv_bits").number(outlook.kvBits);
  json.key("state_bytes").number(outlook.stateBytes);
  json.key("device").string(request.device ? request.device->name : "");
  json.key("widths").beginArray();
  for (const WidthOutlook &width : outlook.widths) {
    json.beginObject();
    json.key("option").string(width.option);
    json.key("bits").number(width.bits);
    json.key("file_bytes").number(width.fileBytes);
    json.key("resident_bytes").number(width.residentBytes);
    json.key("expert_bytes").number(width.expertBytes);
    json.key("record_bytes").number(width.recordBytes);
    json.key("smallest_budget_bytes").number(width.smallestBudget);
    json.key("budgets").beginArray();
    for (const BudgetOutlook &budget : width.budgets)
      writeBudget(json, budget);
    json.endArray();
    json.endObject();
  }
  json.endArray();
  json.endObject();
  out += '\n';
  return out;
}

} // namespace moec
