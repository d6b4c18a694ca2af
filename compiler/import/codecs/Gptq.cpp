// 4-bit GPTQ checkpoints: X.qweight, I32 [inputs / 8, outputs], eight inputs per word, low first;
// X.qzeros, I32 [groups, outputs / 8]; X.scales [groups, outputs]; X.g_idx, I32 [inputs], the group
// of each input, which desc_act orders by activation. The first version of the format, which most
// checkpoints have, stores zero points less one, modulo 16. Source: GPTQModel,
// nn_modules/qlinear/torch.py and utils/model.py (conversion of the versions).
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodecParts.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

class GptqCodec final : public WeightCodec {
public:
  GptqCodec(uint64_t groupSize, bool isReordered, bool isFirstVersion)
      : group(groupSize), reordered(isReordered), firstVersion(isFirstVersion) {}

  std::string text() const override {
    return strCat(firstVersion ? "gptq" : "gptq_v2", ", 4-bit integers, ",
                  group == 0 ? "a scale per row" : strCat("groups of ", group, " inputs"),
                  reordered ? ", ordered by activation" : "");
  }

  std::optional<std::string> plainName(const SafetensorsTensor &stored) const override {
    return withEnding(stored.name, ".qweight", ".weight");
  }

  std::vector<std::string> companions(std::string_view name) const override {
    const std::string_view module = name.substr(0, name.size() - std::string_view("weight").size());
    return {strCat(module, "scales"), strCat(module, "qzeros"), strCat(module, "g_idx")};
  }

  Result<CodedWeight> describe(const StoredTensors &stored, const TensorLocation &codes,
                               std::string_view name) const override {
    const std::vector<std::string> names = companions(name);
    MOERT_ASSIGN_OR_RETURN(CodedWeight weight,
                           wordColumns(stored, codes, {.isAcrossLines = true}, unsigned4Format()));
    MOERT_RETURN_IF_ERROR(
        setColumnScales(stored, codes, {names[0], names[1], group}, {.lineAlignment = 8},
                        firstVersion ? successor4Format() : unsigned4Format(), weight));
    auto groups = stored.find(names[2]);
    if (reordered && !groups) {
      MOERT_ASSIGN_OR_RETURN(groups, requireTensor(stored, codes, names[2], "inputs' groups"));
    }
    if (!groups)
      return weight;
    MOERT_RETURN_IF_ERROR(checkType(stored, *groups, {SafetensorsType::kI32}));
    MOERT_RETURN_IF_ERROR(checkShape(stored, *groups, {{weight.cols}}, "for as many inputs"));
    weight.groupOfColumn = *groups;
    return weight;
  }

private:
  uint64_t group; // 0: all inputs.
  bool reordered, firstVersion;
};

} // namespace

Result<std::unique_ptr<WeightCodec>> makeGptqCodec(const ConfigObject &quantization) {
  MOERT_RETURN_IF_ERROR(quantization.integer("bits", 4, 4).status());
  MOERT_ASSIGN_OR_RETURN(const uint64_t group, readGroupSize(quantization, "group_size"));
  MOERT_ASSIGN_OR_RETURN(const bool isReordered, quantization.boolean("desc_act", false));
  MOERT_RETURN_IF_ERROR(checkChoice(quantization, "checkpoint_format", {"gptq", "gptq_v2"}));
  const Result<std::string> format = quantization.string("checkpoint_format", "gptq");
  MOERT_RETURN_IF_ERROR(format.status());
  return std::unique_ptr<WeightCodec>(
      std::make_unique<GptqCodec>(group, isReordered, format.value() != "gptq_v2"));
}

} // namespace moec
