// Checks that codecs share: the tensors beside a weight's codes, their types and shapes. Messages
// name file, tensor, found and expected.
#pragma once

#include "compiler/import/Config.h"
#include "compiler/import/StoredTensors.h"
#include "compiler/import/codecs/Codec.h"
#include "compiler/import/codecs/CodedWeight.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

/// `name` with its ending `from` replaced; nullopt if it ends otherwise or is nothing else.
std::optional<std::string> withEnding(std::string_view name, std::string_view from,
                                      std::string_view to);

/// Refuses another string than one of `choices`; a missing key is accepted.
moert::Status checkChoice(const ConfigObject &config, std::string_view key,
                          std::initializer_list<std::string_view> choices);

/// The tensor `name`, which the weight with these codes needs as `noun` ("scales").
moert::Result<TensorLocation> requireTensor(const StoredTensors &stored,
                                            const TensorLocation &codes, const std::string &name,
                                            std::string_view noun);

moert::Status checkType(const StoredTensors &stored, const TensorLocation &location,
                        std::initializer_list<TensorType> types);

/// `reason` ends the message: "for groups of 32".
moert::Status checkShape(const StoredTensors &stored, const TensorLocation &location,
                         const std::vector<std::vector<uint64_t>> &shapes, std::string_view reason);

/// {matrices, a, b} or {a, b}.
std::vector<uint64_t> shapeOf(const CodedWeight &weight, uint64_t lines, uint64_t width);

/// A weight of [rows, cols] or [matrices, rows, cols] codes in one byte each.
moert::Result<CodedWeight> byteCodes(const StoredTensors &stored, const TensorLocation &codes,
                                     const NumberFormat &format);

/// Sets weight.scales to a tensor in one of scaleFormatOf()'s types whose elements are blocks of
/// the weight's rows and columns. A scale for all weights may have no dimensions.
moert::Status setScales(const StoredTensors &stored, const TensorLocation &scales,
                        const ScaleBlock &block, CodedWeight &weight);

/// A group size of at least 1, or -1, which is returned as 0: all inputs.
moert::Result<uint64_t> readGroupSize(const ConfigObject &config, std::string_view key,
                                      std::optional<uint32_t> fallback = std::nullopt);

/// The group sizes in `key`, an object of layers (names or patterns) with parameters of their own.
/// Refuses by name a layer that is quantized otherwise than with integers of 4 bits.
moert::Result<std::vector<uint64_t>> readOtherGroups(const ConfigObject &config,
                                                     std::string_view key);

/// Refuses a key that changes values and is not read. Null and an empty object are accepted.
moert::Status refuseKey(const ConfigObject &config, std::string_view key, std::string_view reason);

/// True if the name is that of a quantizer's scale or zero point for activations or for cached keys
/// and values, which are not quantized here.
bool isActivationScale(std::string_view name);

/// A weight whose codes are I32 words with inputs as lines: [inputs, outputs / 8], or [inputs / 8,
/// outputs] if packed across lines.
moert::Result<CodedWeight> wordColumns(const StoredTensors &stored, const TensorLocation &codes,
                                       const NibblePacking &packing, const NumberFormat &format);

/// Names of the scales and zero points of such a weight; inputs per group, 0: all.
struct ColumnScales {
  std::string scales, zeroPoints;
  uint64_t group = 0;
};

/// Sets weight.scales to a 16-bit or F32 tensor [groups, outputs], and weight.zeroPoints to I32
/// words [groups, outputs / 8].
moert::Status setColumnScales(const StoredTensors &stored, const TensorLocation &codes,
                              const ColumnScales &names, const NibblePacking &packing,
                              const NumberFormat &zeroFormat, CodedWeight &weight);

} // namespace moec
