#include "compiler/import/StoredTensor.h"

#include "runtime/base/Status.h"

#include <algorithm>
#include <array>

namespace moec {

namespace {

struct TypeInfo {
  TensorType type;
  std::string_view name;
  TensorBlock block;
};

constexpr std::array kTypes = {
    TypeInfo{TensorType::kBool, "BOOL", {1, 8}},
    TypeInfo{TensorType::kF4, "F4", {1, 4}},
    TypeInfo{TensorType::kF6E2M3, "F6_E2M3", {1, 6}},
    TypeInfo{TensorType::kF6E3M2, "F6_E3M2", {1, 6}},
    TypeInfo{TensorType::kU8, "U8", {1, 8}},
    TypeInfo{TensorType::kI8, "I8", {1, 8}},
    TypeInfo{TensorType::kF8E5M2, "F8_E5M2", {1, 8}},
    TypeInfo{TensorType::kF8E4M3, "F8_E4M3", {1, 8}},
    TypeInfo{TensorType::kF8E8M0, "F8_E8M0", {1, 8}},
    TypeInfo{TensorType::kF8E4M3Fnuz, "F8_E4M3FNUZ", {1, 8}},
    TypeInfo{TensorType::kF8E5M2Fnuz, "F8_E5M2FNUZ", {1, 8}},
    TypeInfo{TensorType::kI16, "I16", {1, 16}},
    TypeInfo{TensorType::kU16, "U16", {1, 16}},
    TypeInfo{TensorType::kF16, "F16", {1, 16}},
    TypeInfo{TensorType::kBf16, "BF16", {1, 16}},
    TypeInfo{TensorType::kI32, "I32", {1, 32}},
    TypeInfo{TensorType::kU32, "U32", {1, 32}},
    TypeInfo{TensorType::kF32, "F32", {1, 32}},
    TypeInfo{TensorType::kC64, "C64", {1, 64}},
    TypeInfo{TensorType::kF64, "F64", {1, 64}},
    TypeInfo{TensorType::kI64, "I64", {1, 64}},
    TypeInfo{TensorType::kU64, "U64", {1, 64}},
    TypeInfo{TensorType::kQ4x0, "Q4_0", {32, 8 * 18}},
    TypeInfo{TensorType::kQ4x1, "Q4_1", {32, 8 * 20}},
    TypeInfo{TensorType::kQ5x0, "Q5_0", {32, 8 * 22}},
    TypeInfo{TensorType::kQ5x1, "Q5_1", {32, 8 * 24}},
    TypeInfo{TensorType::kQ8x0, "Q8_0", {32, 8 * 34}},
    TypeInfo{TensorType::kQ2K, "Q2_K", {256, 8 * 84}},
    TypeInfo{TensorType::kQ3K, "Q3_K", {256, 8 * 110}},
    TypeInfo{TensorType::kQ4K, "Q4_K", {256, 8 * 144}},
    TypeInfo{TensorType::kQ5K, "Q5_K", {256, 8 * 176}},
    TypeInfo{TensorType::kQ6K, "Q6_K", {256, 8 * 210}},
    TypeInfo{TensorType::kIq2Xxs, "IQ2_XXS", {256, 8 * 66}},
    TypeInfo{TensorType::kIq2Xs, "IQ2_XS", {256, 8 * 74}},
    TypeInfo{TensorType::kIq2S, "IQ2_S", {256, 8 * 82}},
    TypeInfo{TensorType::kIq3Xxs, "IQ3_XXS", {256, 8 * 98}},
    TypeInfo{TensorType::kIq3S, "IQ3_S", {256, 8 * 110}},
    TypeInfo{TensorType::kIq1S, "IQ1_S", {256, 8 * 50}},
    TypeInfo{TensorType::kIq1M, "IQ1_M", {256, 8 * 56}},
    TypeInfo{TensorType::kIq4Nl, "IQ4_NL", {32, 8 * 18}},
    TypeInfo{TensorType::kIq4Xs, "IQ4_XS", {256, 8 * 136}},
    TypeInfo{TensorType::kTq1x0, "TQ1_0", {256, 8 * 54}},
    TypeInfo{TensorType::kTq2x0, "TQ2_0", {256, 8 * 66}},
    TypeInfo{TensorType::kMxfp4, "MXFP4", {32, 8 * 17}},
    TypeInfo{TensorType::kNvfp4, "NVFP4", {64, 8 * 36}},
    TypeInfo{TensorType::kQ1x0, "Q1_0", {128, 8 * 18}},
    TypeInfo{TensorType::kQ2x0, "Q2_0", {64, 8 * 18}},
};

constexpr bool isOrdered() {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (static_cast<size_t>(kTypes[i].type) != i)
      return false;
  return true;
}
static_assert(isOrdered(), "a type is its own index");

} // namespace

std::string_view tensorTypeName(TensorType type) {
  return kTypes[static_cast<size_t>(type)].name;
}

TensorBlock tensorBlock(TensorType type) {
  return kTypes[static_cast<size_t>(type)].block;
}

const StoredTensor *ShardHeader::find(std::string_view name) const {
  const auto position = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const StoredTensor &tensor, std::string_view wanted) { return tensor.name < wanted; });
  return position != tensors.end() && position->name == name ? &*position : nullptr;
}

std::string shapeText(const std::vector<uint64_t> &shape) {
  std::string text = "[";
  for (const uint64_t size : shape)
    text += moert::strCat(text.size() > 1 ? ", " : "", size);
  return text + "]";
}

} // namespace moec
