// Describes a calibration profile: as text and as JSON.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

/// Whether the file begins with a profile's magic number; false too if it cannot be read.
bool beginsAsProfile(const std::string &path);

/// Entropy of a layer's routing in bits: 0 if all tokens use the same experts, log2(experts) if all
/// experts are chosen equally often.
double routingEntropyBits(const CalibrationInfo::MoeLayer &layer);

std::string describeProfile(const CalibrationInfo &info, const std::string &fileName);
std::string profileAsJson(const CalibrationInfo &info, const std::string &fileName);

} // namespace moec
