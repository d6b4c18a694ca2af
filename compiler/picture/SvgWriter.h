// Writes an SVG file: shapes and words one after the other, later ones on top. Knows nothing of
// what they mean or where they belong; looks are CSS classes of the file's own style sheet. Numbers
// are written in one way only, so that the same picture is the same bytes.
#pragma once

#include <string>
#include <string_view>

namespace moec {

/// With at most two decimals, which are finer than a screen; what is no number becomes 0.
std::string svgNumber(double value);

/// Text as XML holds it: marks are escaped, what no XML may hold becomes U+FFFD.
std::string escapeXml(std::string_view text);

/// An outline of straight lines, as the "d" of a path.
class SvgPath {
public:
  SvgPath &moveTo(double x, double y);
  SvgPath &acrossTo(double x);
  SvgPath &upOrDownTo(double y);
  SvgPath &close();
  std::string_view data() const { return text; }

private:
  std::string text;
};

/// Used by one thread. Class names are the caller's own and are not escaped.
class SvgWriter {
public:
  /// The title is read out where a picture cannot be seen.
  SvgWriter(double width, double height, std::string_view title, std::string_view styleSheet);

  void rect(double x, double y, double width, double height, std::string_view className);
  void circle(double x, double y, double radius, std::string_view className);
  void line(double x1, double y1, double x2, double y2, std::string_view className);
  void path(const SvgPath &path, std::string_view className);
  /// From x on, or where the class says so, around it or up to it; y is the base line.
  void text(double x, double y, std::string_view words, std::string_view className);

  /// The whole file.
  std::string finish() &&;

private:
  std::string out;
};

} // namespace moec
