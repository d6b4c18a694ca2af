#include "compiler/accuracy/WidthItems.h"

#include <algorithm>
#include <numeric>

using namespace moert;

namespace moec {

// An expert that few calibration tokens chose has a small measured error, which is no reason to
// give it few bits: this many tokens with the layer's mean error are added to each expert.
constexpr double kPriorTokens = 8;

// A few tokens have activations that are thousands of times as large as those of all others, and
// norms divide them away. The expert that computes them has a squared error per token far beyond
// its layer's others, which would then seem free: it counts for at most this multiple of their
// median.
constexpr double kMostOfMedian = 4;

// Per expert of a layer, at one grid.
static std::vector<double> boundedErrors(const ExpertPool &pool, size_t layer, size_t grid,
                                         const std::vector<uint64_t> &counts) {
  std::vector<double> errors, perToken;
  for (size_t e = 0; e < pool.expertsOf(layer); ++e) {
    errors.push_back(pool.expert(layer, e).grids[grid].squaredError);
    if (counts[e] > 0)
      perToken.push_back(errors[e] / double(counts[e]));
  }
  if (perToken.empty())
    return errors;
  const auto middle = perToken.begin() + std::ptrdiff_t(perToken.size() / 2);
  std::nth_element(perToken.begin(), middle, perToken.end());
  for (size_t e = 0; e < errors.size(); ++e)
    errors[e] = std::min(errors[e], kMostOfMedian * *middle * double(counts[e]));
  return errors;
}

void WidthItems::addLayer(size_t layer, const CalibrationInfo::MoeLayer &seen, uint32_t group) {
  double tokens = 0;
  for (uint64_t count : seen.counts)
    tokens += double(count);
  std::vector<std::vector<double>> errors;
  std::vector<double> meanErrors;
  for (size_t g = 0; g < grids.size(); ++g) {
    const std::vector<double> &ofGrid =
        errors.emplace_back(boundedErrors(*pool, layer, g, seen.counts));
    meanErrors.push_back(std::accumulate(ofGrid.begin(), ofGrid.end(), 0.0) /
                         std::max(tokens, 1.0));
  }
  for (size_t e = 0; e < pool->expertsOf(layer); ++e) {
    WidthItem item;
    item.name = strCat("layer ", seen.layer, " expert ", e);
    for (size_t g = 0; g < grids.size(); ++g)
      item.options.push_back({ExpertWidth(grids[g]).meanBits(),
                              double(pool->payloadBytesOf(layer, g)),
                              errors[g][e] + kPriorTokens * meanErrors[g]});
    search.problem.items.push_back(std::move(item));
    search.groups.push_back(group);
    search.isProbedDirectly.push_back(false);
  }
}

Status WidthItems::addClass(const ResidentClass &matrices, QuantizeMethod method,
                            const mlir::moe::CompileOptions &passes, uint32_t group) {
  WidthItem item;
  item.name = matrices.name;
  for (uint32_t width : {16u, 8u, 4u}) {
    MOERT_ASSIGN_OR_RETURN(uint64_t bytes, storedBytes(matrices, width, method, passes));
    item.options.push_back({double(width), double(bytes), 0});
  }
  search.problem.items.push_back(std::move(item));
  search.groups.push_back(group);
  search.isProbedDirectly.push_back(true);
  return {};
}

Result<WidthItems> WidthItems::create(const ExpertPool &pool, size_t grids,
                                      const CalibrationInfo &info,
                                      std::vector<ResidentClass> residents, QuantizeMethod method,
                                      const mlir::moe::CompileOptions &passes) {
  WidthItems items(pool, grids);
  const size_t layers = pool.layers(), groups = std::min(layers, kMaxLayerGroups);
  for (size_t l = 0; l < layers; ++l)
    items.addLayer(l, info.moeLayers[l], uint32_t(l * groups / layers));
  for (const ResidentClass &matrices : residents)
    MOERT_RETURN_IF_ERROR(items.addClass(matrices, method, passes,
                                         uint32_t(groups + size_t(&matrices - residents.data()))));
  items.classes = std::move(residents);
  return items;
}

GridChoice WidthItems::gridsOf(const WidthAssignment &assignment) const {
  GridChoice choice(pool->layers());
  size_t item = 0;
  for (size_t l = 0; l < choice.size(); ++l)
    for (size_t e = 0; e < pool->expertsOf(l); ++e)
      choice[l].push_back(assignment[item++]);
  return choice;
}

std::vector<std::vector<ExpertWidth>>
WidthItems::expertWidthsOf(const WidthAssignment &assignment) const {
  std::vector<std::vector<ExpertWidth>> widths;
  for (const std::vector<uint32_t> &layer : gridsOf(assignment)) {
    std::vector<ExpertWidth> &ofLayer = widths.emplace_back();
    for (uint32_t grid : layer)
      ofLayer.emplace_back(grids[grid]);
  }
  return widths;
}

static std::vector<std::vector<int32_t>> bitsIn(const std::vector<std::vector<ExpertWidth>> &widths,
                                                uint32_t ExpertWidth::*bits) {
  std::vector<std::vector<int32_t>> found;
  for (const std::vector<ExpertWidth> &layer : widths) {
    std::vector<int32_t> &ofLayer = found.emplace_back();
    for (const ExpertWidth &width : layer)
      ofLayer.push_back(int32_t(width.*bits));
  }
  return found;
}

std::vector<std::vector<int32_t>>
WidthItems::expertBitsOf(const WidthAssignment &assignment) const {
  return bitsIn(expertWidthsOf(assignment), &ExpertWidth::bits);
}

std::vector<std::vector<int32_t>>
WidthItems::expertDownBitsOf(const WidthAssignment &assignment) const {
  std::vector<std::vector<int32_t>> down =
      bitsIn(expertWidthsOf(assignment), &ExpertWidth::downBits);
  return down == expertBitsOf(assignment) ? std::vector<std::vector<int32_t>>() : down;
}

std::map<std::string, uint32_t>
WidthItems::residentBitsOf(const WidthAssignment &assignment) const {
  std::map<std::string, uint32_t> bits;
  size_t item = expertItems();
  for (const ResidentClass &matrices : classes) {
    for (const ResidentMatrix &matrix : matrices.matrices)
      bits[matrix.symbol] = uint32_t(search.problem.items[item].options[assignment[item]].bits);
    ++item;
  }
  return bits;
}

uint64_t WidthItems::expertBytesOf(const WidthAssignment &assignment) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < expertItems(); ++i)
    bytes += uint64_t(search.problem.items[i].options[assignment[i]].cost);
  return bytes;
}

uint64_t WidthItems::residentBytesOf(const WidthAssignment &assignment) const {
  uint64_t bytes = 0;
  for (size_t i = expertItems(); i < assignment.size(); ++i)
    bytes += uint64_t(search.problem.items[i].options[assignment[i]].cost);
  return bytes;
}

} // namespace moec
