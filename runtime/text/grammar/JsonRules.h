// Rules of JSON's values, which the grammars of schemas are made of.
#pragma once

#include "runtime/text/grammar/Grammar.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Digits of a number before and after its point: all that a double keeps.
constexpr uint32_t kDigits = 16;
constexpr uint32_t kIndent = 20; // Most spaces of white space after a line break.

/// Adds rules to a grammar, which must outlive it.
class RuleWriter {
public:
  using Element = Grammar::Element;
  using Sequence = Grammar::Sequence;

  explicit RuleWriter(Grammar &built) : grammar(built) {}

  uint32_t newRule(const std::vector<Sequence> &alternatives) const {
    const uint32_t rule = grammar.addRule();
    for (const Sequence &alternative : alternatives)
      grammar.addAlternative(rule, alternative);
    return rule;
  }
  Sequence text(std::string_view bytes) const {
    Sequence sequence;
    grammar.appendText(sequence, bytes);
    return sequence;
  }
  static Sequence join(const std::vector<Sequence> &parts) {
    Sequence all;
    for (const Sequence &part : parts)
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  static Sequence one(uint32_t rule) { return {Grammar::ruleOf(rule)}; }

  /// One of the texts from their byte `begin` on, before which they are equal; sorted, without
  /// duplicates. Equal beginnings are written once, so that a state has one way to follow them.
  uint32_t oneOf(std::span<const std::string> texts, size_t begin) const {
    const uint32_t rule = grammar.addRule();
    for (size_t first = 0, last = 0; first < texts.size(); first = last) {
      const std::string_view text = std::string_view(texts[first]).substr(begin);
      if (text.empty()) {
        grammar.addAlternative(rule, {});
        last = first + 1;
        continue;
      }
      while (last < texts.size() && texts[last].size() > begin && texts[last][begin] == text[0])
        ++last;
      // Sorted: what the first and the last share, all between them share.
      const std::string_view other = std::string_view(texts[last - 1]).substr(begin);
      const auto differ = std::mismatch(text.begin(), text.end(), other.begin(), other.end());
      const auto shared = static_cast<size_t>(differ.first - text.begin());
      Sequence sequence = this->text(text.substr(0, shared));
      if (last - first > 1)
        sequence.push_back(
            Grammar::ruleOf(oneOf(texts.subspan(first, last - first), begin + shared)));
      grammar.addAlternative(rule, sequence);
    }
    return rule;
  }

  Grammar &grammar;
};

/// The grammar of JSON without a schema, whose rules those of a schema refer to.
class JsonRules : public RuleWriter {
public:
  explicit JsonRules(Grammar &built) : RuleWriter(built) {
    space = newRule({{}, text(" ")});
    Sequence line = text("\n");
    line.push_back(upTo(kIndent, set(" ")));
    grammar.addAlternative(space, line);
    makeString();
    makeNumbers();
    makeValues();
  }

  /// {"key": value, ...} with any keys.
  uint32_t freeObject(uint32_t valueRule) const {
    const uint32_t pair = newRule({join({one(string), text(":"), one(space), one(valueRule)})});
    return list("{", pair, "}");
  }
  uint32_t freeArray(uint32_t valueRule) const { return list("[", valueRule, "]"); }

  uint32_t space = 0, character = 0, characters = 0, string = 0, integer = 0, number = 0,
           boolean = 0, null = 0, value = 0, object = 0, array = 0;

private:
  Element set(std::string_view bytes) const {
    ByteSet wanted;
    for (char byte : bytes)
      wanted.add(static_cast<unsigned char>(byte));
    return grammar.bytes(wanted);
  }
  Element range(unsigned char first, unsigned char last) const {
    ByteSet wanted;
    wanted.add(first, last);
    return grammar.bytes(wanted);
  }
  /// At most `count` times the element.
  Element upTo(uint32_t count, Element element) const {
    uint32_t rest = newRule({{}});
    for (uint32_t i = 0; i < count; ++i)
      rest = newRule({{element, Grammar::ruleOf(rest)}, {}});
    return Grammar::ruleOf(rest);
  }

  uint32_t list(std::string_view open, uint32_t item, std::string_view close) const {
    const uint32_t more = grammar.addRule();
    grammar.addAlternative(more, join({text(","), one(space), one(item), one(more)}));
    grammar.addAlternative(more, {});
    const uint32_t items = newRule({join({one(item), one(more)}), {}});
    return newRule({join({text(open), one(space), one(items), one(space), text(close)})});
  }

  // Valid UTF-8 without control characters, and escapes that are no half of a surrogate pair.
  void makeString() {
    const Element tail = range(0x80, 0xBF), hex = set("0123456789abcdefABCDEF");
    ByteSet plain;
    plain.add(0x20, 0x21);
    plain.add(0x23, 0x5B);
    plain.add(0x5D, 0x7E);
    const Sequence escape = text("\\"), unicode = text("\\u");
    character = newRule({{grammar.bytes(plain)},
                         {range(0xC2, 0xDF), tail},
                         {range(0xE0, 0xE0), range(0xA0, 0xBF), tail},
                         {range(0xE1, 0xEC), tail, tail},
                         {range(0xED, 0xED), range(0x80, 0x9F), tail},
                         {range(0xEE, 0xEF), tail, tail},
                         {range(0xF0, 0xF0), range(0x90, 0xBF), tail, tail},
                         {range(0xF1, 0xF3), tail, tail, tail},
                         {range(0xF4, 0xF4), range(0x80, 0x8F), tail, tail},
                         join({escape, {set("\"\\/bfnrt")}}),
                         join({unicode, {set("0123456789abcefABCEF"), hex, hex, hex}}),
                         join({unicode, {set("dD"), set("01234567"), hex, hex}})});
    characters = grammar.addRule();
    grammar.addAlternative(characters, join({one(character), one(characters)}));
    grammar.addAlternative(characters, {});
    string = newRule({join({text("\""), one(characters), text("\"")})});
  }

  void makeNumbers() {
    const Element digit = range('0', '9'), nonZero = range('1', '9');
    const Element sign = Grammar::ruleOf(newRule({{}, text("-")}));
    integer = newRule({join({{sign}, text("0")}), {sign, nonZero, upTo(kDigits - 1, digit)}});
    const uint32_t fraction = newRule({{}, join({text("."), {digit, upTo(kDigits - 1, digit)}})});
    const Element exponentSign = Grammar::ruleOf(newRule({{}, {set("+-")}}));
    const uint32_t exponent = newRule({{}, {set("eE"), exponentSign, digit, upTo(1, digit)}});
    number = newRule({join({one(integer), one(fraction), one(exponent)})});
  }

  void makeValues() {
    boolean = newRule({text("true"), text("false")});
    null = newRule({text("null")});
    value = grammar.addRule();
    object = freeObject(value);
    array = freeArray(value);
    for (uint32_t rule : {object, array, string, number, boolean, null})
      grammar.addAlternative(value, one(rule));
  }
};

} // namespace moert
