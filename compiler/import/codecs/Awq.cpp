// 4-bit AWQ checkpoints in the GEMM layout: X.qweight, I32 [inputs, outputs / 8], X.qzeros, I32
// [groups, outputs / 8], and X.scales [groups, outputs]. The eight outputs of a word are
// interleaved: its nibbles, low first, are outputs 0, 2, 4, 6, 1, 3, 5, 7. Source: AutoAWQ,
// awq/utils/packing_utils.py.
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodecParts.h"

namespace moec {

using moert::Result;
using moert::strCat;

namespace {

/// The nibble of each output.
constexpr NibblePacking kPacking = {.nibbles = {0, 4, 1, 5, 2, 6, 3, 7}, .lineAlignment = 8};

class AwqCodec final : public WeightCodec {
public:
  explicit AwqCodec(uint64_t groupSize) : group(groupSize) {}

  std::string text() const override {
    return strCat("awq, 4-bit integers, ",
                  group == 0 ? "a scale per row" : strCat("groups of ", group, " inputs"));
  }

  std::optional<std::string> plainName(const StoredTensor &stored) const override {
    return withEnding(stored.name, ".qweight", ".weight");
  }

  std::vector<std::string> companions(std::string_view name) const override {
    const std::string_view module = name.substr(0, name.size() - std::string_view("weight").size());
    return {strCat(module, "scales"), strCat(module, "qzeros")};
  }

  Result<CodedWeight> describe(const StoredTensors &stored, const TensorLocation &codes,
                               std::string_view name) const override {
    const std::vector<std::string> names = companions(name);
    MOERT_ASSIGN_OR_RETURN(CodedWeight weight,
                           wordColumns(stored, codes, kPacking, unsigned4Format()));
    MOERT_RETURN_IF_ERROR(setColumnScales(stored, codes, {names[0], names[1], group}, kPacking,
                                          unsigned4Format(), weight));
    return weight;
  }

private:
  uint64_t group; // 0: all inputs.
};

} // namespace

std::unique_ptr<WeightCodec> makeAwqCodec(uint64_t group) {
  return std::make_unique<AwqCodec>(group);
}

Result<std::unique_ptr<WeightCodec>> makeAwqCodec(const ConfigObject &quantization) {
  const auto nameOf = [&](const char *name, const char *older) {
    return quantization.has(name) ? name : older;
  };
  MOERT_RETURN_IF_ERROR(quantization.integer(nameOf("bits", "w_bit"), 4, 4).status());
  MOERT_ASSIGN_OR_RETURN(const uint64_t group,
                         readGroupSize(quantization, nameOf("group_size", "q_group_size")));
  MOERT_ASSIGN_OR_RETURN(const bool hasZeroPoints, quantization.boolean("zero_point", true));
  if (!hasZeroPoints)
    return quantization.mismatch("zero_point", "true, as AWQ checkpoints have zero points");
  MOERT_RETURN_IF_ERROR(checkChoice(quantization, "version", {"gemm", "GEMM"}));
  return makeAwqCodec(group);
}

} // namespace moec
