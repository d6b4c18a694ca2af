// Checkpoints of auto-round with integers of 4 bits, stored like GPTQ's or AWQ's as packing_format
// says: "auto_round:auto_gptq" is GPTQ's first version, with zero points less one;
// "auto_round:gptqmodel" its second; "auto_round:auto_awq" AWQ. Symmetric weights have zero points
// too, all of them 8. extra_config overrides the parameters of layers, by name or pattern. Source:
// auto-round, export/export_to_autoround/export.py and inference/backend.py; transformers,
// utils/quantization_config.py (AutoRoundConfig).
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodecParts.h"

namespace moec {

using moert::Result;

namespace {

constexpr double kDefaultGroup = 128;

Result<std::unique_ptr<WeightCodec>> makePart(const ConfigObject &quantization,
                                              const std::string &format, uint64_t group) {
  if (format == "auto_round:auto_gptq" || format == "auto_round:gptq")
    return makeGptqCodec({.group = group, .isFirstVersion = true});
  if (format == "auto_round:gptqmodel" || format == "auto_round")
    return makeGptqCodec({.group = group, .isFirstVersion = false});
  if (format == "auto_round:auto_awq" || format == "auto_round:awq")
    return makeAwqCodec(group);
  return quantization.mismatch(
      quantization.has("packing_format") ? "packing_format" : "backend",
      "\"auto_round:auto_gptq\", \"auto_round:gptqmodel\" or \"auto_round:auto_awq\"");
}

} // namespace

Result<std::unique_ptr<WeightCodec>> makeAutoRoundCodec(const ConfigObject &quantization) {
  MOERT_RETURN_IF_ERROR(checkChoice(quantization, "data_type", {"int"}));
  MOERT_RETURN_IF_ERROR(quantization.integer("bits", 4, 4, 4).status());
  MOERT_ASSIGN_OR_RETURN(const uint64_t group,
                         readGroupSize(quantization, "group_size", kDefaultGroup));
  std::string format = "auto_round:gptq"; // The class's default.
  // Older files have the packing as the backend, newer ones a program to run with.
  for (const char *key : {"backend", "packing_format"})
    if (quantization.has(key)) {
      MOERT_ASSIGN_OR_RETURN(std::string value, quantization.string(key));
      if (value.starts_with("auto_round"))
        format = std::move(value);
      else if (std::string_view(key) == "packing_format")
        return makePart(quantization, value, group);
    }
  std::vector<std::unique_ptr<WeightCodec>> parts;
  MOERT_ASSIGN_OR_RETURN(parts.emplace_back(), makePart(quantization, format, group));
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint64_t> others,
                         readOtherGroups(quantization, "extra_config"));
  for (const uint64_t other : others) {
    MOERT_ASSIGN_OR_RETURN(parts.emplace_back(), makePart(quantization, format, other));
  }
  return makeMixedCodec(std::move(parts));
}

} // namespace moec
