// What an artifact says of itself: for people as a page of text, for programs as JSON. Reads no
// weights and decides nothing.
#pragma once

#include "runtime/format/Artifact.h"

#include <string>

namespace moec {

/// Fits into 80 columns, but for names and values that are longer themselves. Colours are a
/// terminal's; the text without them says the same.
std::string describeArtifact(const moert::Artifact &artifact, const std::string &fileName,
                             bool hasColour = false);

/// One object. Its keys are those of artifact.fbs, with sums beside them; a key is only ever added.
std::string artifactAsJson(const moert::Artifact &artifact, const std::string &fileName);

/// Of an expert's full precision (its first variant), scales included: 4.5 for 4 bits in groups
/// of 32.
double bitsPerWeight(const moert::MoeLayer &layer, const moert::Expert &expert);

/// "int4/32", "int2/32+offsets", "bf16".
std::string nameOfFormat(const moert::WeightFormat &format);

} // namespace moec
