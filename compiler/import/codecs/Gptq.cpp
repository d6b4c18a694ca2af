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
  explicit GptqCodec(const GptqLayout &storedLayout) : layout(storedLayout) {}

  std::string text() const override {
    return strCat(layout.isFirstVersion ? "gptq" : "gptq_v2", ", 4-bit integers, ",
                  layout.group == 0 ? "a scale per row"
                                    : strCat("groups of ", layout.group, " inputs"),
                  layout.isReordered ? ", ordered by activation" : "");
  }

  std::optional<std::string> plainName(const StoredTensor &stored) const override {
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
        setColumnScales(stored, codes, {names[0], names[1], layout.group}, {.lineAlignment = 8},
                        layout.isFirstVersion ? successor4Format() : unsigned4Format(), weight));
    auto groups = stored.find(names[2]);
    if (layout.isReordered && !groups) {
      MOERT_ASSIGN_OR_RETURN(groups, requireTensor(stored, codes, names[2], "inputs' groups"));
    }
    if (!groups)
      return weight;
    MOERT_RETURN_IF_ERROR(checkType(stored, *groups, {TensorType::kI32}));
    MOERT_RETURN_IF_ERROR(checkShape(stored, *groups, {{weight.cols}}, "for as many inputs"));
    weight.groupOfColumn = *groups;
    return weight;
  }

private:
  GptqLayout layout;
};

} // namespace

std::unique_ptr<WeightCodec> makeGptqCodec(const GptqLayout &layout) {
  return std::make_unique<GptqCodec>(layout);
}

Result<std::unique_ptr<WeightCodec>> makeGptqCodec(const ConfigObject &quantization) {
  GptqLayout layout;
  MOERT_RETURN_IF_ERROR(quantization.integer("bits", 4, 4).status());
  MOERT_ASSIGN_OR_RETURN(layout.group, readGroupSize(quantization, "group_size"));
  MOERT_ASSIGN_OR_RETURN(layout.isReordered, quantization.boolean("desc_act", false));
  // GPTQModel has another name for the same.
  const char *const formatKey =
      quantization.has("checkpoint_format") ? "checkpoint_format" : "format";
  MOERT_RETURN_IF_ERROR(checkChoice(quantization, formatKey, {"gptq", "gptq_v2"}));
  const Result<std::string> format = quantization.string(formatKey, "gptq");
  MOERT_RETURN_IF_ERROR(format.status());
  layout.isFirstVersion = format.value() != "gptq_v2";
  MOERT_RETURN_IF_ERROR(checkChoice(quantization, "pack_dtype", {"int32"}));
  MOERT_ASSIGN_OR_RETURN(const bool isMarlin, quantization.boolean("is_marlin_format", false));
  if (isMarlin)
    return quantization.mismatch("is_marlin_format", "false: that packing is not read");
  MOERT_RETURN_IF_ERROR(refuseKey(quantization, "adapter", "adapters are not read"));
  std::vector<std::unique_ptr<WeightCodec>> parts;
  parts.push_back(makeGptqCodec(layout));
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> others,
                         readOtherGroups(quantization, "dynamic"));
  for (const uint64_t other : others) {
    layout.group = other;
    parts.push_back(makeGptqCodec(layout));
  }
  return makeMixedCodec(std::move(parts));
}

} // namespace moec
