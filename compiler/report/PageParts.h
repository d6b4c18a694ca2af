// The parts of a report's page that do not depend on the report, embedded when the program is
// built: scripts, style, and the specifications of pictures. Generated from page/ by embed.cmake.
#pragma once

#include <span>
#include <string_view>

namespace moec {

struct PagePart {
  std::string_view name; // "heat.json"
  std::string_view text;
};

/// vega.js, draw.js, page.css, and a file per specification.
std::span<const PagePart> pageParts();

/// The text of a part that exists.
std::string_view pagePart(std::string_view name);

} // namespace moec
