// Reads the parts of a regular expression that stand for characters: escapes and classes. For
// RegexTranslator.cpp only.
#pragma once

#include "runtime/base/Excerpt.h"
#include "runtime/base/Status.h"
#include "runtime/base/Utf8.h"

#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// A literal character as PCRE2 reads it inside and outside of a class.
std::string regexLiteral(uint32_t codePoint);

/// A set of characters: the members of a PCRE2 class ("a-z\p{L}") and sets that cannot be written
/// as members, each as an expression that matches one character.
struct CharacterSet {
  std::string members;
  std::vector<std::string> others;

  bool isEmpty() const { return members.empty() && others.empty(); }
  bool isPlain() const { return others.empty(); }

  /// An expression for one character of the set.
  std::string expression() const {
    std::string all = members.empty() ? "" : "[" + members + "]";
    for (const std::string &other : others)
      all += (all.empty() ? "" : "|") + other;
    return others.size() + (members.empty() ? 0 : 1) == 1 ? all : "(?:" + all + ")";
  }

  /// An expression for one character that is not in the set.
  std::string complement() const {
    return isPlain() ? "[^" + members + "]" : "(?:(?!" + expression() + ")[\\x{0}-\\x{10FFFF}])";
  }

  void add(const CharacterSet &other) {
    members += other.members;
    others.insert(others.end(), other.others.begin(), other.others.end());
  }
};

/// What a backslash stands for: one character or a set.
struct Escape {
  bool isCharacter = false;
  uint32_t character = 0;
  CharacterSet set;
};

/// A place in a text, and the translation of the character sets there.
class RegexReader : protected TextReader {
protected:
  explicit RegexReader(std::string_view source);

  template <typename... Parts> Status refuse(const Parts &...parts) const {
    return invalidInput("at byte ", position, ": ", parts...);
  }
  Status unsupported(std::string_view what) const {
    return atEnd() ? refuse("found the end, expected more")
                   : refuse("found '", excerpt(what), "', which is not supported here");
  }
  Status unsupported() const {
    return unsupported(
        text.substr(position, atEnd() ? 0 : firstCodePoint(text.substr(position)).length));
  }

  /// The escape at the backslash at the current place.
  Result<Escape> escape();
  /// [...], with nested classes and intersections; the current place is the bracket.
  Result<CharacterSet> characterClass(bool caseless);
  /// Counts one more open group or class.
  Status enter();

  int depth = 0; // Open groups and classes.

private:
  Result<uint32_t> hexCharacter(std::string_view digits);
  Result<CharacterSet> property();
  Status classMembers(bool caseless, CharacterSet &set);
  Status classMember(bool caseless, CharacterSet &set);
  Result<Escape> classCharacter();

  bool isWordPattern;
};

} // namespace moert
