#include "runtime/format/Quality.h"

#include <algorithm>
#include <cstdio>

namespace moert {

static std::string formatted(const char *format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string quickLossText(const QuickLoss &quick) {
  return strCat("perplexity ", formatted("%+.2f%%", quick.loss * 100), ", KL ",
                formatted("%.4f", quick.klNats), " nats, another likeliest token for ",
                formatted("%.1f%%", quick.topDisagreement * 100),
                ", all 0 for the checkpoint itself; on ", quick.windows, " windows of ",
                quick.windowTokens, " tokens that it wrote, without a bound");
}

bool isExact(const Artifact &artifact) {
  return std::ranges::none_of(artifact.provenance, [](const auto &fact) {
    return (fact.first == "bits" || fact.first == "resident_bits" || fact.first == "head_bits") &&
           fact.second != "source";
  });
}

static std::string acceptedText(const Measured &measured) {
  const bool isNats = measured.metric == "kl";
  const auto lossText = [isNats](double loss) {
    return isNats ? formatted("%.4f", loss) : formatted("%.2f%%", loss * 100);
  };
  std::string text = isNats ? strCat("KL ", lossText(measured.loss), " nats per token")
                            : strCat(lossText(measured.loss), " loss in ", measured.metric);
  text += strCat(", at most ", lossText(measured.upperBound));
  if (const auto &quantile = measured.quantile; quantile && quantile->target)
    text += strCat(", and ", formatted("%.4g%%", quantile->fraction * 100),
                   " of the documents at most ", lossText(quantile->upperBound), " each");
  return text + ", accepted";
}

std::string qualityText(const Artifact &artifact) {
  if (const auto &measured = artifact.measured)
    return acceptedText(*measured);
  if (const auto &quick = artifact.quickLoss)
    return strCat(quickLossText(*quick), quick->klNats > kNoticeableKl
                                             ? ". Answers can be noticeably worse than the "
                                               "checkpoint's: compile it with more --bits"
                                             : "");
  if (isExact(artifact))
    return "the checkpoint's own weights";
  const bool isFitted = std::ranges::any_of(artifact.provenance, [](const auto &fact) {
    return fact.first == "quantizer" && fact.second != "nearest";
  });
  return isFitted ? kUnmeasuredText
                  : "loss not measured; rounding to nearest can lose tens of percent";
}

} // namespace moert
