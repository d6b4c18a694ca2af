// Reads device profiles as YAML, written by `moert probe` or by hand. README.md describes the
// fields. Anything else is refused, with file, line, the found and the expected value.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "runtime/base/Status.h"

#include <string>
#include <string_view>

namespace moec {

/// `name` is the text's name in error messages.
moert::Result<DeviceProfile> parseDevice(std::string_view yaml, const std::string &name);

moert::Result<DeviceProfile> readDeviceFile(const std::string &path);

} // namespace moec
