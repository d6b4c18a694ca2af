// Strict reading of YAML: the reader takes every key of a map by name, all other keys are refused,
// and every error has its place. An implementation detail of DeviceFile.cpp; the only header that
// includes yaml-cpp.
#pragma once

#include "compiler/plan/DeviceProfile.h"
#include "runtime/base/Status.h"

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <yaml-cpp/yaml.h>

namespace moec {

/// The allowed values of a number, bounds included.
struct Range {
  double minimum = 0, maximum = 0;
};

/// "FILE:LINE: PLACE: found X, expected Y".
moert::Status refuseNode(const std::string &file, const YAML::Node &node, const std::string &place,
                         std::string_view expected);

/// One map of a file. Lives on the stack of the function that reads the map; borrows the file's
/// name.
class YamlFields {
public:
  /// An error unless the node is a map whose keys are scalars and distinct.
  static moert::Result<YamlFields> of(const std::string &file, const YAML::Node &node,
                                      std::string place);

  bool has(const std::string &key) const;

  /// The field of that name; a missing one is an error that names the map's line.
  moert::Result<YAML::Node> take(const std::string &key);
  moert::Result<YamlFields> map(const std::string &key);

  moert::Result<std::string> text(const std::string &key);
  moert::Result<uint64_t> count(const std::string &key, const Range &range);

  /// Values with a tag for their origin: !measured 12.
  moert::Result<Quantity> quantity(const std::string &key, const Range &range);
  moert::Result<uint64_t> knownCount(const std::string &key, const Range &range);
  moert::Result<bool> knownFlag(const std::string &key);
  moert::Result<std::string> knownWord(const std::string &key,
                                       std::initializer_list<std::string_view> words);

  /// An error if the map has a key that was not read.
  moert::Status finish() const;

  std::string placeOf(const std::string &key) const;
  moert::Status refuse(const std::string &key, std::string_view expected) const;

private:
  YamlFields(const std::string &fileName, YAML::Node mapNode, std::string mapPlace)
      : file(fileName), node(std::move(mapNode)), place(std::move(mapPlace)) {}
  moert::Result<std::string> scalar(const std::string &key, std::string_view expected);
  moert::Status checkTag(const std::string &key) const;

  const std::string &file;
  YAML::Node node;
  std::string place; // "disk.direct[3]"; empty for the file's top-level map.
  std::set<std::string> taken;
};

} // namespace moec
