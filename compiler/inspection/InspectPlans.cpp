// An artifact's plans as text: a table of all, then the settings and reasons of each.
#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"
#include "compiler/plan/PlanProblem.h"

#include "runtime/base/Size.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <functional>

using namespace moert;

namespace moec {

using Align = TextTable::Align;

namespace {

// Columns of the page.
constexpr size_t kLineWidth = 80;

/// Wraps a text at spaces; lines after the first begin with `hanging` spaces, the column at which
/// the first line begins.
std::string wrapped(const std::string &text, size_t hanging) {
  std::string lines;
  size_t column = hanging;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const size_t length = end - at;
    if (column > hanging && column + 1 + length > kLineWidth) {
      lines.append("\n").append(hanging, ' ');
      column = hanging;
    } else if (column > hanging) {
      lines += " ";
      ++column;
    }
    lines += text.substr(at, length);
    column += length;
    at = end + 1;
  }
  return lines;
}

/// A text per MoE layer, with equal neighbours joined: "layers 0-3: 8; 4: 6"; if all layers are
/// equal, that text followed by `ofAll`: "8 for each layer".
std::string byLayers(const Artifact &artifact, const std::function<std::string(size_t)> &say,
                     std::string_view ofAll = "") {
  const std::vector<MoeLayer> &layers = artifact.moeLayers;
  std::string text;
  for (size_t first = 0, end = 0; first < layers.size(); first = end) {
    const std::string said = say(first);
    for (end = first + 1; end < layers.size() && say(end) == said; ++end)
      ;
    if (first == 0 && end == layers.size())
      return strCat(said, ofAll);
    const uint32_t from = layers[first].layer, to = layers[end - 1].layer;
    const bool isFirst = text.empty();
    text += strCat(isFirst ? "layer" : "; ", isFirst ? (end - first == 1 ? " " : "s ") : "", from,
                   end - first == 1 ? std::string() : strCat("-", to), ": ", said);
  }
  return text;
}

std::string listOf(const std::vector<uint32_t> &experts) {
  std::string text;
  for (uint32_t expert : experts)
    text += strCat(text.empty() ? "" : ", ", expert);
  return text.empty() ? "none" : strCat(experts.size() == 1 ? "expert " : "experts ", text);
}

std::string pagesText(uint64_t pages) {
  return strCat(pages, pages == 1 ? " page" : " pages");
}

std::string quotaText(const Plan &plan) {
  if (plan.quotaPages.empty())
    return "-";
  if (plan.rules.sharing == CacheSharing::kOnePool)
    return "shared";
  auto [least, most] = std::minmax_element(plan.quotaPages.begin(), plan.quotaPages.end());
  return *least == *most ? std::to_string(*least) : strCat(*least, " to ", *most);
}

std::string tableOfPlans(const Artifact &artifact) {
  TextTable table({{"name", Align::kLeft},
                   {"budget"},
                   {"context"},
                   {"prefill"},
                   {"cache"},
                   {"pages"},
                   {"staging"},
                   {"per layer"}});
  for (const Plan &plan : artifact.plans) {
    const uint64_t pages = CacheAllotment{plan.stagingPages, plan.quotaPages}.totalPages();
    table.addRow({plan.name, plan.budgetBytes == 0 ? "none" : formatBytes(plan.budgetBytes),
                  std::to_string(plan.contextTokens), std::to_string(plan.prefillChunk),
                  formatBytes(pages * artifact.pageBytes), std::to_string(pages),
                  std::to_string(plan.stagingPages), quotaText(plan)});
  }
  return table.text(kIndent);
}

bool hasUses(const Plan &plan) {
  return std::any_of(plan.start.begin(), plan.start.end(), [](const LayerStart &start) {
    return std::any_of(start.uses.begin(), start.uses.end(),
                       [](uint32_t uses) { return uses > 0; });
  });
}

std::string startText(const Artifact &artifact, const Plan &plan) {
  if (plan.start.empty())
    return "empty";
  return strCat(byLayers(
                    artifact,
                    [&](size_t i) {
                      const size_t experts = plan.start[i].experts.size();
                      return experts == 0 ? std::string("none")
                                          : strCat(experts, experts == 1 ? " expert" : " experts");
                    },
                    " of each layer"),
                hasUses(plan) ? strCat(", with their uses in ", plan.startTokens,
                                       plan.startTokens == 1 ? " token" : " tokens")
                              : ", without recorded uses");
}

static std::string upperText(const CacheRules &rules) {
  return rules.upperPart == 0
             ? std::string()
             : strCat(", in a pool of ", fixed(double(rules.upperPart) / kFixedPointOne, 3),
                      " of the pages");
}

std::string missText(const MissRule &miss) {
  const MissActionRow &row = rowOf(miss.action);
  std::string text(row.sentence);
  auto fill = [&text](std::string_view mark, const std::string &value) {
    if (const size_t at = text.find(mark); at != std::string::npos)
      text.replace(at, mark.size(), value);
  };
  auto fractionOf = [&](size_t i) {
    const auto fraction = row.fractions[i];
    return fraction ? fixed(double(miss.*fraction) / kFixedPointOne, 3) : std::string();
  };
  fill("{0}", fractionOf(0));
  fill("{1}", fractionOf(1));
  fill("{slices}", strCat(uint32_t(miss.lowSlices), miss.lowSlices == 1 ? " slice" : " slices"));
  return text;
}

std::string measuredText(const MissRule &miss, const PlanLoss &loss) {
  return strCat(loss.metric, " ", boundedLossText(loss), ", KL ", fixed(loss.klNats, 4),
                " nats, top-1 agreement ", fixed((1 - loss.topDisagreement) * 100, 1),
                miss.changesPrompts() ? "%; reading as prompts " : "%; decoding ", loss.windows,
                " windows of ", loss.windowTokens, " tokens, ", loss.units,
                " units, with this plan's cache");
}

std::string evictionText(const CacheRules &rules) {
  const std::string name(nameOf(rules.eviction));
  if (!needs(rules.eviction, ScoreData::kWeights))
    return name;
  auto weight = [](uint32_t number) { return fixed(double(number) / kFixedPointOne, 3); };
  return strCat(name, " (recency ", weight(rules.weights.recency), ", frequency ",
                weight(rules.weights.frequency), ", full frequency ",
                weight(rules.weights.fullFrequency), ", nearness ", weight(rules.weights.nearness),
                ")");
}

std::string describeSettings(const Artifact &artifact, const Plan &plan) {
  std::string text;
  auto add = [&](const char *name, const std::string &value) {
    constexpr size_t kNameWidth = 10;
    std::string label = name;
    label.resize(kNameWidth, ' ');
    text += strCat(kIndent, label, wrapped(value, kNameWidth + 2), "\n");
  };
  if (!plan.preset.empty())
    add("preset", plan.preset);
  add("eviction", strCat(evictionText(plan.rules), ", ", nameOf(plan.rules.sharing),
                         "; a new prompt keeps ", nameOf(plan.rules.survival)));
  add("quotas", plan.rules.sharing == CacheSharing::kOnePool
                    ? strCat("none, ", pagesText(CacheAllotment{0, plan.quotaPages}.totalPages()),
                             " for all layers")
                    : byLayers(
                          artifact, [&](size_t i) { return pagesText(plan.quotaPages[i]); },
                          " for each layer"));
  add("pinned", plan.pinned.empty() ? "none" : byLayers(artifact, [&](size_t i) {
        return listOf(plan.pinned[i]);
      }));
  add("start", startText(artifact, plan));
  if (plan.rules.exchange.exchanges())
    add("exchanges", exchangeText(plan.rules.exchange));
  if (plan.miss.isLossy())
    add("misses", missText(plan.miss));
  if (plan.rules.baseSlices > 0 && hasLowCopies(artifact))
    add("held",
        strCat("low copies in place of the others, which leave whole", upperText(plan.rules)));
  else if (plan.rules.baseSlices > 0)
    add("held",
        strCat("the first ", uint32_t(plan.rules.baseSlices),
               plan.rules.baseSlices == 1 ? " slice" : " slices",
               " of a record alone; the others leave by themselves", upperText(plan.rules)));
  if (plan.loss)
    add("loss", measuredText(plan.miss, *plan.loss));
  add("prefetch", plan.prefetches.empty() ? "none" : byLayers(artifact, [&](size_t i) {
        return prefetchText(plan.prefetches[i]);
      }));
  return text;
}

/// The tag before each reason states the origin of its numbers.
std::string describeReasons(const Plan &plan) {
  std::string text;
  for (const PlanReason &reason : plan.reasons) {
    constexpr size_t kTagWidth = 10;
    std::string tag(nameOf(reason.origin));
    tag.resize(kTagWidth, ' ');
    const std::string said = strCat(reason.decision, " = ", reason.value, ": ", reason.reason);
    text += strCat(kIndent, tag, wrapped(said, kTagWidth + 2), "\n");
  }
  return text.empty() ? text : strCat("\n", text);
}

bool decidesNothing(const Plan &plan) {
  Plan plain{plan.name,          plan.budgetBytes,  plan.prefillChunk,
             plan.contextTokens, plan.stagingPages, plan.quotaPages};
  plain.forecast = plan.forecast;
  return plan == plain;
}

} // namespace

std::string describePlans(const Artifact &artifact) {
  std::string text =
      strCat("plans, in pages of ", formatBytes(artifact.pageBytes), ":\n", tableOfPlans(artifact));
  for (const Plan &plan : artifact.plans)
    if (!decidesNothing(plan) && !artifact.moeLayers.empty())
      text += strCat("\nplan ", plan.name, ":\n", describeSettings(artifact, plan),
                     describeReasons(plan));
  const std::string forecasts = describeForecasts(artifact);
  return forecasts.empty() ? text : strCat(text, "\n", forecasts);
}

} // namespace moec
