#include "runtime/images/ClassNames.h"

#include "runtime/format/FieldCheck.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace moert {

// ImageNet's longest has 121.
constexpr size_t kMaxNameBytes = 1024;

Status checkClassNames(const std::vector<std::string> &names, uint32_t classes) {
  if (names.size() != classes)
    return invalidInput("found ", names.size(), " names of classes, expected ", classes);
  for (const std::string &name : names) {
    MOERT_RETURN_IF_ERROR(checkText(name, "a class name"));
    if (name.empty() || name.size() > kMaxNameBytes)
      return invalidInput("a class name has ", name.size(), " bytes, expected 1 to ",
                          kMaxNameBytes);
  }
  return {};
}

std::vector<std::string> classNamesOf(const Artifact &artifact) {
  std::vector<std::string> names;
  for (const auto &[key, value] : artifact.provenance)
    if (key == kClassNamesKey) {
      const auto list = nlohmann::ordered_json::parse(std::string_view(value), nullptr, false);
      for (size_t i = 0; list.is_array() && i < list.size(); ++i)
        names.push_back(list[i].is_string() ? list[i].get<std::string>() : std::string());
    }
  if (!checkClassNames(names, artifact.model.vocabularySize).isOk())
    names.clear();
  return names;
}

std::string classNamesText(const std::vector<std::string> &names) {
  return nlohmann::ordered_json(names).dump();
}

} // namespace moert
