#include "compiler/report/ReportFacts.h"

#include "compiler/inspection/InspectSections.h"
#include "runtime/base/Size.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cmath>

using moert::formatBytes;
using moert::strCat;

namespace moec {

std::string_view unitName(Unit unit) {
  switch (unit) {
  case Unit::kNone:
  case Unit::kCommand:
    return "";
  case Unit::kCount:
    return "count";
  case Unit::kFraction:
    return "1";
  case Unit::kBytes:
    return "bytes";
  case Unit::kNs:
    return "ns";
  case Unit::kTokensPerSecond:
    return "tokens/s";
  case Unit::kBytesPerSecond:
    return "bytes/s";
  case Unit::kBits:
    return "bits";
  case Unit::kNats:
    return "nats";
  case Unit::kRatio:
    return "ratio";
  }
  return "";
}

/// Three significant digits, more for whole numbers that have them.
static std::string significant(double value) {
  const double size = std::abs(value);
  return fixed(value, size >= 100 || value == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

static std::string bytesText(double bytes) {
  constexpr double kMost = 9e18; // Beyond this a whole number of bytes does not fit 64 bits.
  const double size = std::min(std::abs(bytes), kMost);
  return strCat(bytes < 0 ? "-" : "", formatBytes(static_cast<uint64_t>(std::llround(size))));
}

static std::string percentText(double fraction) {
  constexpr double kLeastShown = 0.00005; // Less is "0.0%", without a sign.
  if (std::abs(fraction) < kLeastShown)
    return "0.0%";
  return fixed(100 * fraction, std::abs(fraction) < 0.01 ? 2 : 1) + "%";
}

static std::string numberText(double value, Unit unit) {
  switch (unit) {
  case Unit::kNone:
  case Unit::kCommand:
    return significant(value);
  case Unit::kCount:
    return value == std::floor(value) ? fixed(value, 0) : significant(value);
  case Unit::kFraction:
    return percentText(value);
  case Unit::kBytes:
    return bytesText(value);
  case Unit::kNs:
    return significant(value / 1e6) + " ms";
  case Unit::kTokensPerSecond:
    return significant(value) + " tokens/s";
  case Unit::kBytesPerSecond:
    return value >= 1e9 ? significant(value / 1e9) + " GB/s" : significant(value / 1e6) + " MB/s";
  case Unit::kBits:
    return fixed(value, 2) + " bits";
  case Unit::kNats:
    return fixed(value, 4) + " nats";
  case Unit::kRatio:
    return fixed(value, 2) + " x";
  }
  return "";
}

std::string shownText(const Value &value, Unit unit) {
  if (value.isText())
    return value.text();
  if (!value.isNumber() || !std::isfinite(value.number()))
    return "-";
  return numberText(value.number(), unit);
}

const Fact *findFact(const Report &report, std::string_view id) {
  for (const Section &section : report.sections)
    for (const Fact &fact : section.facts)
      if (fact.id == id)
        return &fact;
  return nullptr;
}

const Table *findTable(const Section &section, std::string_view id) {
  const auto found = std::ranges::find(section.tables, id, &Table::id);
  return found == section.tables.end() ? nullptr : &*found;
}

std::string fasterText(double ratio) {
  if (ratio >= kManyTimes)
    return strCat(fixed(ratio, 1), " times as fast");
  return strCat(shownText(std::abs(ratio - 1), Unit::kFraction),
                ratio >= 1 ? " faster" : " slower");
}

} // namespace moec
