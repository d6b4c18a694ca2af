// Writes an SVG file: shapes and text in drawing order, later ones on top. Appearance is set by CSS
// classes of the file's own style sheet. Numbers have one textual form, so that the same picture
// gives the same bytes.
#pragma once

#include <string>
#include <string_view>

namespace moec {

/// At most two decimals, which is finer than a pixel; NaN and infinity become 0.
std::string svgNumber(double value);

/// Escapes text for XML; characters that XML does not allow become U+FFFD.
std::string escapeXml(std::string_view text);

/// An outline of straight lines, for a path's "d" attribute.
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

/// Used by one thread. Class names come from the caller's code and are not escaped.
class SvgWriter {
public:
  /// Screen readers read the title.
  SvgWriter(double width, double height, std::string_view title, std::string_view styleSheet);

  void rect(double x, double y, double width, double height, std::string_view className);
  void circle(double x, double y, double radius, std::string_view className);
  void line(double x1, double y1, double x2, double y2, std::string_view className);
  void path(const SvgPath &path, std::string_view className);
  /// The text begins, is centred or ends at x, as its class sets; y is the base line.
  void text(double x, double y, std::string_view words, std::string_view className);

  /// The complete file.
  std::string finish() &&;

private:
  std::string out;
};

} // namespace moec
