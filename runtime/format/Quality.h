// One line about how far an artifact is from its checkpoint, for a person who is about to use it.
#pragma once

#include "runtime/format/Artifact.h"

#include <string>

namespace moert {

/// Nats per token above which an artifact's answers can be noticeably worse than its checkpoint's
/// (docs/accuracy.md, "The quick loss").
constexpr double kNoticeableKl = 0.15;

/// The line of an artifact that was fitted to inputs.
constexpr const char *kUnmeasuredText =
    "loss not measured; moert eval --reference measures it against a compile with --bits source";

/// Where the terms of these lines are explained.
constexpr const char *kQualityDocs = "docs/accuracy.md, \"The quick loss\"";

/// "perplexity +1.9%, KL 0.0312, ..." with what it was measured on.
std::string quickLossText(const QuickLoss &quick);

/// Whether all weights are the checkpoint's own.
bool isExact(const Artifact &artifact);

/// What is known: the accepted loss with its bound, the quick loss, that nothing was rounded, or
/// that nothing was measured. With a hint where the quick loss is above kNoticeableKl.
std::string qualityText(const Artifact &artifact);

} // namespace moert
