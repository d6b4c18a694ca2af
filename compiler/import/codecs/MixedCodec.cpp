// Checkpoints whose weights are quantized in several ways: FP8 attention beside NVFP4 experts,
// groups of another size in some layers. The config says so per layer; the stored tensors decide.
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodecParts.h"

#include <algorithm>

namespace moec {

using moert::invalidInput;
using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

/// True if both decode to the same values: they differ at most in groups longer than a row.
bool areAlike(const CodedWeight &a, const CodedWeight &b) {
  const auto isSamePlane = [&](const Plane &left, const Plane &right) {
    return left.lines == right.lines && left.width == right.width &&
           std::min(left.rowsPerElement, a.rows) == std::min(right.rowsPerElement, b.rows) &&
           std::min(left.colsPerElement, a.cols) == std::min(right.colsPerElement, b.cols);
  };
  return a.shape() == b.shape() && isSamePlane(a.scales, b.scales) &&
         a.zeroPoints.has_value() == b.zeroPoints.has_value();
}

class MixedCodec final : public WeightCodec {
public:
  explicit MixedCodec(std::vector<std::unique_ptr<WeightCodec>> codecs)
      : parts(std::move(codecs)) {}

  std::string text() const override {
    std::string text = "mixed: ";
    for (const auto &part : parts)
      text += strCat(part == parts.front() ? "" : "; ", part->text());
    return text;
  }

  std::optional<std::string> plainName(const StoredTensor &stored) const override {
    for (const auto &part : parts)
      if (auto name = part->plainName(stored))
        return name;
    return std::nullopt;
  }

  std::vector<std::string> companions(std::string_view name) const override {
    std::vector<std::string> names;
    for (const auto &part : parts)
      for (std::string &companion : part->companions(name))
        if (std::find(names.begin(), names.end(), companion) == names.end())
          names.push_back(std::move(companion));
    return names;
  }

  /// Tries every part that recognizes the codes.
  Result<CodedWeight> describe(const StoredTensors &stored, const TensorLocation &codes,
                               std::string_view name) const override {
    std::optional<CodedWeight> found;
    const WeightCodec *finder = nullptr;
    std::string refusals;
    for (const auto &part : parts) {
      if (part->plainName(*codes.tensor) != name)
        continue;
      Result<CodedWeight> weight = part->describe(stored, codes, name);
      if (!weight.isOk()) {
        refusals += strCat(refusals.empty() ? "" : "; or ", weight.status().message());
        continue;
      }
      if (found && !areAlike(*found, *weight))
        return invalidInput(stored.subject(codes), ": found scales that fit ", finder->text(),
                            " and ", part->text(), ", expected a shape that decides between them");
      if (!found)
        finder = part.get();
      found = std::move(*weight);
    }
    if (!found)
      return invalidInput(refusals);
    return std::move(*found);
  }

private:
  std::vector<std::unique_ptr<WeightCodec>> parts; // At least two.
};

} // namespace

std::unique_ptr<WeightCodec> makeMixedCodec(std::vector<std::unique_ptr<WeightCodec>> parts) {
  std::vector<std::unique_ptr<WeightCodec>> different;
  for (auto &part : parts)
    if (std::none_of(different.begin(), different.end(),
                     [&](const auto &other) { return other->text() == part->text(); }))
      different.push_back(std::move(part));
  if (different.size() == 1)
    return std::move(different.front());
  return std::make_unique<MixedCodec>(std::move(different));
}

} // namespace moec
