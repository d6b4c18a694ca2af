#include "runtime/base/Duration.h"

#include "runtime/base/Status.h"

namespace moert {

std::string formatDuration(uint64_t seconds) {
  if (seconds < 60)
    return strCat(seconds, " s");
  if (seconds < 3600)
    return strCat(seconds / 60, " min ", seconds % 60, " s");
  return strCat(seconds / 3600, " h ", seconds % 3600 / 60, " min");
}

} // namespace moert
