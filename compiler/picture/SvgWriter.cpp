#include "compiler/picture/SvgWriter.h"

#include "runtime/base/Status.h"
#include "runtime/base/Utf8.h"

#include <charconv>
#include <cmath>

using moert::strCat;

namespace moec {

std::string svgNumber(double value) {
  // Coordinates beyond this are off every screen.
  constexpr double kLargest = 1e6;
  if (!(std::abs(value) <= kLargest))
    return "0";
  char digits[32];
  const auto end =
      std::to_chars(digits, digits + sizeof(digits), value, std::chars_format::fixed, 2);
  std::string text(digits, end.ptr);
  while (text.back() == '0')
    text.pop_back();
  if (text.back() == '.')
    text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string escapeXml(std::string_view text) {
  std::string valid, escaped;
  moert::appendLossyUtf8(text, true, valid);
  for (char c : valid) {
    switch (c) {
    case '&':
      escaped += "&amp;";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    case '\t':
    case '\n':
    case '\r':
      escaped += ' ';
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20)
        escaped += moert::kReplacementCharacter;
      else
        escaped += c;
    }
  }
  return escaped;
}

SvgPath &SvgPath::moveTo(double x, double y) {
  text += strCat("M", svgNumber(x), " ", svgNumber(y));
  return *this;
}

SvgPath &SvgPath::acrossTo(double x) {
  text += strCat("H", svgNumber(x));
  return *this;
}

SvgPath &SvgPath::upOrDownTo(double y) {
  text += strCat("V", svgNumber(y));
  return *this;
}

SvgPath &SvgPath::close() {
  text += "Z";
  return *this;
}

SvgWriter::SvgWriter(double width, double height, std::string_view title,
                     std::string_view styleSheet) {
  const std::string w = svgNumber(width), h = svgNumber(height);
  out = strCat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w, "\" height=\"", h,
               "\" viewBox=\"0 0 ", w, " ", h, "\" role=\"img\">\n<title>", escapeXml(title),
               "</title>\n<style>\n", styleSheet, "</style>\n");
}

void SvgWriter::rect(double x, double y, double width, double height, std::string_view className) {
  out += strCat("<rect class=\"", className, "\" x=\"", svgNumber(x), "\" y=\"", svgNumber(y),
                "\" width=\"", svgNumber(width), "\" height=\"", svgNumber(height), "\"/>\n");
}

void SvgWriter::circle(double x, double y, double radius, std::string_view className) {
  out += strCat("<circle class=\"", className, "\" cx=\"", svgNumber(x), "\" cy=\"", svgNumber(y),
                "\" r=\"", svgNumber(radius), "\"/>\n");
}

void SvgWriter::line(double x1, double y1, double x2, double y2, std::string_view className) {
  out += strCat("<line class=\"", className, "\" x1=\"", svgNumber(x1), "\" y1=\"", svgNumber(y1),
                "\" x2=\"", svgNumber(x2), "\" y2=\"", svgNumber(y2), "\"/>\n");
}

void SvgWriter::path(const SvgPath &path, std::string_view className) {
  out += strCat("<path class=\"", className, "\" d=\"", path.data(), "\"/>\n");
}

void SvgWriter::text(double x, double y, std::string_view words, std::string_view className) {
  out += strCat("<text class=\"", className, "\" x=\"", svgNumber(x), "\" y=\"", svgNumber(y),
                "\">", escapeXml(words), "</text>\n");
}

std::string SvgWriter::finish() && {
  return std::move(out) + "</svg>\n";
}

} // namespace moec
