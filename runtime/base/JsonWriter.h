// Writes JSON for programs to read. Neither a parser nor a tree: each call appends to a string
// directly. Numbers are the shortest decimals that read back as the same value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert {

/// Used by one thread; the string must outlive the writer. The caller is responsible for valid
/// nesting: inside an object, every value follows a key.
class JsonWriter {
public:
  explicit JsonWriter(std::string &output) : out(output) {}

  void beginObject() { open('{'); }
  void endObject() { close('}'); }
  void beginArray() { open('['); }
  void endArray() { close(']'); }

  JsonWriter &key(std::string_view name);

  /// Invalid UTF-8, as in a file name, becomes U+FFFD.
  void string(std::string_view text);
  void number(uint64_t value);
  void number(int64_t value);
  void number(uint32_t value) { number(uint64_t(value)); }
  void number(int32_t value) { number(int64_t(value)); }
  void number(double value); // Infinity and NaN, which JSON lacks, become null.
  /// An array of all numbers in the range.
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
