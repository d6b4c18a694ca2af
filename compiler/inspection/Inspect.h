// Describes an artifact's content: as a page of text, and as JSON. Reads no weights.
#pragma once

#include "runtime/format/Artifact.h"

#include <string>

namespace moec {

/// Fits into 80 columns, except for names and values that are longer themselves. The text without
/// colours contains the same information.
std::string describeArtifact(const moert::Artifact &artifact, const std::string &fileName,
                             bool hasColour = false);

/// One object. Its keys are those of artifact.fbs, and sums; keys are only ever added.
std::string artifactAsJson(const moert::Artifact &artifact, const std::string &fileName);

/// Bits per weight of an expert at its full precision (its first variant), scales included: 4.5 for
/// 4 bits in groups of 32.
double bitsPerWeight(const moert::MoeLayer &layer, const moert::Expert &expert);

/// "int4/32", "int2/32+offsets", "bf16".
std::string nameOfFormat(const moert::WeightFormat &format);

} // namespace moec
