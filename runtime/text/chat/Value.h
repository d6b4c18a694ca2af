// The values of a template: Python's, as far as templates use them. Values are immutable, except
// for objects such as namespaces, so they are shared and cheap to copy. Texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace moert::chat {

class Value;
class Object;
struct Text;
struct Sequence;
struct Dict;

using TextPtr = std::shared_ptr<const Text>;
using SequencePtr = std::shared_ptr<const Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using ObjectPtr = std::shared_ptr<Object>;

/// A missing variable or member. Printing it gives nothing; most other uses are errors.
struct Undefined {
  std::shared_ptr<const std::string> reason; // The error's message.
};

struct None {};

/// Must be in the order of Value's alternatives.
enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBoolean,
  kInteger,
  kFloat,
  kText,
  kSequence,
  kDict,
  kObject,
};

class Value {
public:
  Value() : content(None{}) {}
  explicit Value(bool flag) : content(flag) {}
  explicit Value(int64_t number) : content(number) {}
  explicit Value(double number) : content(number) {}
  explicit Value(TextPtr text) : content(std::move(text)) {}
  explicit Value(SequencePtr sequence) : content(std::move(sequence)) {}
  explicit Value(DictPtr dict) : content(std::move(dict)) {}
  explicit Value(ObjectPtr object) : content(std::move(object)) {}
  static Value undefined(std::string reason);
  /// For short texts of our own; texts from a template are made by Allowance, which counts them.
  static Value ofText(std::string bytes);

  Kind kind() const { return static_cast<Kind>(content.index()); }
  bool isUndefined() const { return kind() == Kind::kUndefined; }
  bool isNone() const { return kind() == Kind::kNone; }
  bool isText() const { return kind() == Kind::kText; }
  bool isDict() const { return kind() == Kind::kDict; }
  bool isSequence() const { return kind() == Kind::kSequence; }
  /// A bool is an integer, as in Python.
  bool isIntegral() const { return kind() == Kind::kInteger || kind() == Kind::kBoolean; }
  bool isNumber() const { return isIntegral() || kind() == Kind::kFloat; }

  // Each needs a value of that kind.
  const std::string &undefinedReason() const { return *std::get<Undefined>(content).reason; }
  bool boolean() const { return std::get<bool>(content); }
  int64_t integer() const; ///< Of an integral value.
  double number() const;   ///< Of a number.
  const Text &textValue() const { return *std::get<TextPtr>(content); }
  const std::string &text() const; ///< The bytes of a text.
  const SequencePtr &sequence() const { return std::get<SequencePtr>(content); }
  const DictPtr &dict() const { return std::get<DictPtr>(content); }
  const ObjectPtr &object() const { return std::get<ObjectPtr>(content); }

  /// Python's name of the type, for messages.
  std::string typeName() const;
  /// Python's bool(): empty texts and collections, zero, None and undefined values are false.
  bool isTrue() const;
  /// Levels of lists and dictionaries in the value.
  uint32_t depth() const;
  /// How much there is to read, in steps.
  uint64_t weight() const;

private:
  std::variant<Undefined, None, bool, int64_t, double, TextPtr, SequencePtr, DictPtr, ObjectPtr>
      content;
};

struct Text {
  std::string bytes;
  size_t length; // In characters (code points).

  bool isAscii() const { return length == bytes.size(); }
};

/// What Python can do with a sequence differs by its type.
enum class SequenceKind : uint8_t {
  kList,
  kTuple,
  kRange,
  kView,      // The keys, values or entries of a dictionary: no subscripts.
  kGenerator, // The result of a lazy filter: no length, no subscripts, and read only once.
};

struct Sequence {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  uint32_t depth = 1;
  mutable size_t position = 0; // In a generator: the items before it were read.

  bool hasLength() const { return kind != SequenceKind::kGenerator; }
  bool hasSubscripts() const { return kind <= SequenceKind::kRange; }
};

/// Keeps the order of insertion, as Python does.
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string, size_t> index; // Entry by hashKey() of its name.
  uint32_t depth = 1;

  const Value *find(const std::string &key) const;
  const Value *findText(std::string_view name) const;
  /// Replaces an equal name's value.
  void set(std::string key, Value name, Value value);
};

/// The name of a text in Dict::index.
std::string textKey(std::string_view name);

} // namespace moert::chat
