// Device profiles as YAML: what `moert probe` writes and what people write by hand. README.md
// describes the fields. Anything that is not described there is refused, naming file, line, what
// was found and what was expected.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "runtime/base/Status.h"

#include <string>
#include <string_view>

namespace moec {

/// `name` is what errors call the text.
moert::Result<DeviceProfile> parseDevice(std::string_view yaml, const std::string &name);

moert::Result<DeviceProfile> readDeviceFile(const std::string &path);

} // namespace moec
