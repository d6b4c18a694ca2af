// Writes JSON for programs to read. Not a parser and not a tree: what is written is appended to a
// string at once. Numbers are the shortest decimals that read back as the same value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Used by one thread; the string has to outlive it. The caller keeps JSON's order: inside an
/// object every value has a key in front.
class JsonWriter {
public:
  explicit JsonWriter(std::string &output) : out(output) {}

  void beginObject() { open('{'); }
  void endObject() { close('}'); }
  void beginArray() { open('['); }
  void endArray() { close(']'); }

  JsonWriter &key(std::string_view name);

  /// Names of files may hold anything: U+FFFD stands for what is no UTF-8.
  void string(std::string_view text);
  void number(uint64_t value);
  void number(int64_t value);
  void number(uint32_t value) { number(uint64_t(value)); }
  void number(int32_t value) { number(int64_t(value)); }
  void number(double value); // JSON has no infinity and no NaN: these become null.
  /// All of a range of them, as an array.
  template <typename Range> void numbers(const Range &values) {
    beginArray();
    for (auto value : values)
      number(value);
    endArray();
  }
  void boolean(bool value);

private:
  void open(char bracket);
  void close(char bracket);
  void beforeValue();
  void appendQuoted(std::string_view text);

  std::string &out;
  std::vector<bool> hasValues; // Per open bracket: whether the next value needs a comma.
  bool afterKey = false;
};

} // namespace moert
