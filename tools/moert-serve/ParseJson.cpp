#include "tools/moert-serve/ParseJson.h"

#include "runtime/base/Status.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace moert::serve {

namespace {

/// The members of an object as the vector that it is made of: the object's own functions to add
/// some search it first.
using Members = Json::object_t::Container;

Members &membersOf(Json &object) {
  return object.get_ref<Json::object_t &>();
}

/// Leaves one of the members that have the same name.
void mergeRepeated(Members &members) {
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int names = members[a].first.compare(members[b].first);
    return names != 0 ? names < 0 : a < b;
  });
  std::vector<bool> isLeftOut(members.size(), false);
  size_t first = 0, left = members.size();
  for (size_t i = 1; i < order.size(); ++i) {
    if (members[order[i]].first != members[order[first]].first) {
      first = i;
      continue;
    }
    members[order[first]].second = std::move(members[order[i]].second);
    isLeftOut[order[i]] = true;
    --left;
  }
  if (left == members.size())
    return;
  Members kept;
  kept.reserve(left);
  for (size_t i = 0; i < members.size(); ++i)
    if (!isLeftOut[i])
      kept.emplace_back(members[i].first, std::move(members[i].second));
  members = std::move(kept);
}

/// Receives the values of a text in their order. The object or array that is being read is the last
/// element of the one around it, which does not change meanwhile.
class JsonBuilder : public nlohmann::json_sax<Json> {
public:
  JsonBuilder(Json &built, const JsonLimits &jsonLimits) : root(built), limits(jsonLimits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t &) override { return add(value); }
  bool string(string_t &value) override { return add(std::move(value)); }
  bool binary(binary_t &) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool key(string_t &value) override {
    name = std::move(value);
    return true;
  }
  bool end_object() override {
    mergeRepeated(membersOf(*opened.back()));
    return end_array();
  }
  bool end_array() override {
    opened.pop_back();
    return true;
  }
  bool parse_error(size_t position, const std::string &, const Json::exception &) override {
    fault.bytes = position;
    return false;
  }

  JsonFault fault;

private:
  bool exceeds(size_t count, uint32_t most, const char *before, const char *after) {
    if (count > most)
      fault.limit = strCat(before, " more than ", most, after);
    return count > most;
  }
  /// Returns the value in its place; nullptr beyond a limit.
  Json *place(Json value) {
    if (exceeds(++values, limits.values, "it has", " values"))
      return nullptr;
    if (opened.empty())
      return &(root = std::move(value));
    Json &around = *opened.back();
    if (!around.is_object()) {
      around.push_back(std::move(value));
      return &around.back();
    }
    if (exceeds(around.size() + 1, limits.members, "an object has", " members"))
      return nullptr;
    return &membersOf(around).emplace_back(std::move(name), std::move(value)).second;
  }
  bool add(Json value) { return place(std::move(value)) != nullptr; }
  bool open(Json value) {
    if (exceeds(opened.size() + 1, limits.depth, "it is nested", " levels deep"))
      return false;
    opened.push_back(place(std::move(value)));
    return opened.back() != nullptr;
  }

  Json &root;
  const JsonLimits &limits;
  size_t values = 0;
  std::vector<Json *> opened;
  std::string name; // The next member has it.
};

} // namespace

std::optional<JsonFault> parseJson(std::string_view text, const JsonLimits &limits, Json &parsed) {
  JsonBuilder builder(parsed, limits);
  if (Json::sax_parse(text, &builder))
    return {};
  builder.fault.bytes = std::min(builder.fault.bytes, text.size());
  return std::move(builder.fault);
}

} // namespace moert::serve
