#include "runtime/format/WeightLayout.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace moert {

const char *nameOf(WeightKind kind) {
  constexpr const char *kNames[] = {"f32",   "f16",  "bf16", "int8", "int4",   "int2",  "int1",
                                    "mxfp4", "nl2",  "nl4",  "int0", "int3",   "int5",  "int6",
                                    "nl3",   "q4_0", "q4_1", "q5_0", "q5_1",   "q8_0",  "q2_k",
                                    "q3_k",  "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"};
  return kNames[static_cast<uint8_t>(kind)];
}

std::span<const WeightKind> planesOf(WeightKind kind) {
  constexpr WeightKind k1 = WeightKind::kInt1, k2 = WeightKind::kInt2;
  static constexpr WeightKind kThree[] = {k2, k1}, kFive[] = {k2, k2, k1}, kSix[] = {k2, k2, k2},
                              kNlThree[] = {WeightKind::kNl2, k1};
  static constexpr auto kSingle = [] {
    std::array<WeightKind, static_cast<size_t>(kLastWeightKind) + 1> kinds = {};
    for (size_t i = 0; i < kinds.size(); ++i)
      kinds[i] = static_cast<WeightKind>(i);
    return kinds;
  }();
  switch (kind) {
  case WeightKind::kInt3:
    return kThree;
  case WeightKind::kInt5:
    return kFive;
  case WeightKind::kInt6:
    return kSix;
  case WeightKind::kNl3:
    return kNlThree;
  default:
    return std::span(kSingle).subspan(static_cast<size_t>(kind), 1);
  }
}

static Status checkFloatGroups(const WeightFormat &format) {
  if (isKept(format.kind)) {
    const uint32_t group = floatFormat(format.kind).group;
    if (format.group != group || format.activationGroup != 0 || format.hasOffsets)
      return invalidInput("a matrix of ", nameOf(format.kind), " has weight groups of ",
                          format.group, " inputs, activation groups of ", format.activationGroup,
                          " and ", format.hasOffsets ? "" : "no ",
                          "offsets, expected weight groups of ", group, " alone");
  } else if (format.group != 0 || format.activationGroup != 0 || format.hasOffsets) {
    return invalidInput("a ", nameOf(format.kind), " matrix has groups or offsets, expected none");
  }
  return {};
}

Status checkFormat(const WeightFormat &format) {
  if (!isQuantized(format.kind)) {
    MOERT_RETURN_IF_ERROR(checkFloatGroups(format));
    if (format.refines)
      return invalidInput("a ", nameOf(format.kind), " matrix cannot refine another");
    if (format.hasByteScales)
      return invalidInput("a ", nameOf(format.kind), " matrix with byte scales, expected none");
    if (format.hasHadamard)
      return invalidInput("a ", nameOf(format.kind),
                          " matrix with the Hadamard transform, expected one without");
    return {};
  }
  if (format.hasByteScales && (format.refines || format.hasOffsets))
    return invalidInput("a matrix with byte scales that refines another or has offsets, ",
                        "expected neither");
  if (format.refines && format.hasOffsets)
    return invalidInput("a refinement with offsets, expected those of the slice that it refines");
  if (hasLevels(format.kind) && (format.refines || format.hasOffsets))
    return invalidInput("a matrix of ", nameOf(format.kind),
                        " that refines another or has offsets, ", "expected neither");
  if ((format.kind == WeightKind::kInt1 || format.kind == WeightKind::kInt0) && !format.refines)
    return invalidInput("a matrix of ", nameOf(format.kind), ", which exists only as a refinement");
  if (format.activationGroup != 16 && format.activationGroup != 32 && format.activationGroup != 64)
    return invalidInput("activation group ", format.activationGroup, ", expected 16, 32 or 64");
  if (format.group == 0 || format.group % format.activationGroup != 0)
    return invalidInput("weight group ", format.group,
                        ", expected a multiple of the activation group ", format.activationGroup);
  if (planesOf(format.kind).size() > 1 && format.refines)
    return invalidInput("a matrix of ", nameOf(format.kind), " that refines another, ",
                        "expected int1, int2 or int4");
  // A unit of int1 holds 32 inputs, and no group begins inside a unit.
  if (hasLevels(format.kind) && format.activationGroup != 32)
    return invalidInput(nameOf(format.kind), " with activation group ", format.activationGroup,
                        ", expected 32");
  if (planesOf(format.kind).back() == WeightKind::kInt1 && format.activationGroup == 16)
    return invalidInput(nameOf(format.kind), " with activation group 16, expected 32 or 64");
  return {};
}

// Sizes stay far below 2^64: rows and cols have 32 bits, so rows * cols * 4 bytes needs 66 bits in
// the worst case. The limit on elements excludes that before any further multiplication.
Result<MatrixLayout> layoutOf(const MatrixShape &shape, const WeightFormat &format) {
  constexpr uint64_t kMaxElements = uint64_t(1) << 44;
  MOERT_RETURN_IF_ERROR(checkFormat(format));
  if (shape.rows == 0 || shape.cols == 0)
    return invalidInput("a matrix of ", shape.rows, " x ", shape.cols, ", expected at least 1 x 1");
  uint64_t paddedRows = roundUp(shape.rows, kPanelRows);
  uint64_t paddedCols =
      isQuantized(format.kind) ? roundUp(shape.cols, format.activationGroup) : shape.cols;
  if (paddedCols > UINT32_MAX || paddedRows * paddedCols > kMaxElements)
    return invalidInput("a matrix of ", shape.rows, " x ", shape.cols,
                        ", expected at most 2^44 elements");

  if (isKept(format.kind) && shape.cols % format.group != 0)
    return invalidInput("a matrix of ", nameOf(format.kind), " and ", shape.cols,
                        " inputs, expected a multiple of ", format.group);
  const bool hasScales =
      (isQuantized(format.kind) && !format.refines) || format.kind == WeightKind::kMxfp4;

  MatrixLayout layout;
  layout.paddedCols = static_cast<uint32_t>(paddedCols);
  layout.isPanels = isQuantized(format.kind) || isKept(format.kind) || shape.rows >= kPanelRows;
  if (!layout.isPanels) {
    layout.codesBytes = uint64_t(shape.rows) * shape.cols * bitsOf(format.kind) / 8;
    layout.bytes = layout.codesBytes;
    return layout;
  }
  layout.panels = static_cast<uint32_t>(paddedRows / kPanelRows);
  if (hasBlocks(format.kind)) {
    layout.groupsPerRow = shape.cols / format.group;
    layout.codesBytes = layout.bytes =
        paddedRows * layout.groupsPerRow * blockOf(format.kind).bytes;
    return layout;
  }
  const std::span<const WeightKind> planes = planesOf(format.kind);
  for (size_t i = 0; i < planes.size(); ++i) {
    layout.planeOffsets[i] = roundUp(layout.codesBytes, kRegionAlignment);
    layout.codesBytes = layout.planeOffsets[i] + paddedRows * paddedCols * bitsOf(planes[i]) / 8;
  }
  layout.bytes = layout.codesBytes;
  if (!hasScales)
    return layout;
  layout.groupsPerRow = static_cast<uint32_t>(divideUp(paddedCols, format.group));
  const uint64_t tableBytes = paddedRows * layout.groupsPerRow * scaleBytesOf(format);
  layout.scalesOffset = roundUp(layout.codesBytes, kRegionAlignment);
  if (format.hasByteScales) {
    layout.rowScalesOffset = layout.scalesOffset;
    layout.scalesOffset += paddedRows * sizeof(uint16_t);
  }
  layout.bytes = layout.scalesOffset + tableBytes;
  if (format.hasOffsets) {
    layout.offsetsOffset = roundUp(layout.bytes, kRegionAlignment);
    layout.bytes = layout.offsetsOffset + tableBytes;
  }
  return layout;
}

// The combinations that the kernels support: each of these lists and each prefix of one.
static bool isSliceList(std::span<const WeightFormat> slices) {
  constexpr WeightKind k2 = WeightKind::kInt2, k4 = WeightKind::kInt4;
  static constexpr WeightKind kEight[] = {k2, k2, k4}, kNlFour[] = {WeightKind::kNl2, k2};
  for (std::span<const WeightKind> list :
       {planesOf(WeightKind::kInt3), planesOf(WeightKind::kInt5), planesOf(WeightKind::kInt6),
        planesOf(WeightKind::kNl3), std::span<const WeightKind>(kEight),
        std::span<const WeightKind>(kNlFour)})
    if (slices.size() <= list.size() &&
        std::equal(slices.begin(), slices.end(), list.begin(),
                   [](const WeightFormat &slice, WeightKind kind) { return slice.kind == kind; }))
      return true;
  return false;
}

static Status checkRefinement(const WeightFormat &slice, const WeightFormat &base) {
  if (!slice.refines)
    return invalidInput("does not refine the slice before it, expected at most 2 copies");
  if (slice.group != base.group || slice.activationGroup != base.activationGroup)
    return invalidInput("groups of ", slice.group, " and ", slice.activationGroup,
                        ", those of the slice that it refines are ", base.group, " and ",
                        base.activationGroup);
  if (slice.hasHadamard != base.hasHadamard)
    return invalidInput(slice.hasHadamard ? "has" : "lacks",
                        " the Hadamard transform, unlike the slice that it refines");
  return {};
}

uint32_t bitsOf(const ExpertFormat &format) {
  return 2 * bitsOf(format.gateUp.kind) + bitsOf(format.down.kind);
}

uint16_t lowCopySlicesOf(std::span<const ExpertFormat> slices) {
  for (size_t i = 1; i < slices.size(); ++i)
    if (!slices[i].refines())
      return static_cast<uint16_t>(i);
  return 0;
}

Status checkMatrixSlices(std::span<const WeightFormat> slices, size_t first) {
  if (slices.front().refines)
    return invalidInput("slice ", first, " refines another, there is none before it");
  std::string kinds;
  for (size_t i = 0; i < slices.size(); ++i) {
    MOERT_RETURN_IF_ERROR(checkFormat(slices[i]).withContext(strCat("slice ", first + i)));
    if (i > 0)
      MOERT_RETURN_IF_ERROR(
          checkRefinement(slices[i], slices.front()).withContext(strCat("slice ", first + i)));
    kinds += strCat(i > 0 ? "+" : "", nameOf(slices[i].kind));
  }
  while (slices.back().kind == WeightKind::kInt0)
    slices = slices.first(slices.size() - 1);
  if (slices.size() > 1 && !isSliceList(slices))
    return invalidInput("slices of ", kinds, ", expected int2 or nl2 and int1 or int2, or ",
                        "int2, int2 and int1, int2 or int4");
  return {};
}

static Status checkCopy(std::span<const ExpertFormat> slices, size_t first) {
  std::vector<WeightFormat> gateUp, down;
  for (size_t i = 0; i < slices.size(); ++i) {
    const ExpertFormat &slice = slices[i];
    if (isQuantized(slice.gateUp.kind) != isQuantized(slice.down.kind) ||
        slice.gateUp.activationGroup != slice.down.activationGroup)
      return invalidInput("slice ", first + i, ": gate and up of ", nameOf(slice.gateUp.kind),
                          " with activation group ", slice.gateUp.activationGroup, " and down of ",
                          nameOf(slice.down.kind), " with activation group ",
                          slice.down.activationGroup,
                          ", expected one activation group, or float kinds");
    if (slice.gateUp.hasHadamard != slice.down.hasHadamard)
      return invalidInput("slice ", first + i, ": down ", slice.down.hasHadamard ? "has" : "lacks",
                          " the Hadamard transform, unlike gate and up");
    if (bitsOf(slice) == 0)
      return invalidInput("slice ", first + i, ": it holds nothing");
    gateUp.push_back(slice.gateUp);
    down.push_back(slice.down);
  }
  MOERT_RETURN_IF_ERROR(checkMatrixSlices(gateUp, first));
  return checkMatrixSlices(down, first).withContext("down");
}

static uint32_t bitsOfCopy(std::span<const ExpertFormat> slices) {
  uint32_t bits = 0;
  for (const ExpertFormat &slice : slices)
    bits += bitsOf(slice);
  return bits;
}

// The bits of a weight, where all matrices have as many, or their mean.
static std::string widthText(std::span<const ExpertFormat> slices) {
  const uint32_t bits = bitsOfCopy(slices), whole = bits / kExpertMatrices;
  constexpr const char *kParts[] = {"", " 1/3", " 2/3"};
  return strCat(whole, kParts[bits % kExpertMatrices]);
}

Status checkSliceFormats(std::span<const ExpertFormat> slices) {
  if (slices.empty() || slices.size() > kMaxExpertSlices)
    return invalidInput(slices.size(), " slices, expected 1 to ", kMaxExpertSlices);
  if (slices.front().refines())
    return invalidInput("slice 0 refines another, there is none before it");
  const size_t low = lowCopySlicesOf(slices);
  const std::span<const ExpertFormat> lowCopy = slices.first(low), highCopy = slices.subspan(low);
  if (low > 0)
    MOERT_RETURN_IF_ERROR(checkCopy(lowCopy, 0));
  MOERT_RETURN_IF_ERROR(checkCopy(highCopy, low));
  if (low > 0 && (!lowCopy.front().isQuantized() || bitsOfCopy(lowCopy) >= bitsOfCopy(highCopy)))
    return invalidInput("a low copy of ", nameOf(lowCopy.front().gateUp.kind), ", ",
                        widthText(lowCopy), " bits, and a separate one of ", widthText(highCopy),
                        " bits, expected a quantized low copy of fewer bits");
  return {};
}

} // namespace moert
