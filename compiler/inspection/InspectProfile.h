// What a calibration profile says of itself: for people as text, for programs as JSON.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

/// Whether the file begins as a profile does; false as well where it cannot be read.
bool beginsAsProfile(const std::string &path);

/// Of a layer's routing: 0 where all tokens went to the same experts, log2(experts) where each
/// expert was chosen equally often.
double routingEntropyBits(const CalibrationInfo::MoeLayer &layer);

std::string describeProfile(const CalibrationInfo &info, const std::string &fileName);
std::string profileAsJson(const CalibrationInfo &info, const std::string &fileName);

} // namespace moec
