// Converts a model to the search's items and assignments back to widths: every expert is an item
// whose options are grids of the pool; every class of resident matrices is an item whose options
// are 16, 8 and 4 bits.
#pragma once

#include "compiler/accuracy/ResidentClasses.h"
#include "compiler/plan/WidthSearch.h"
#include "compiler/pool/ExpertPool.h"
#include "compiler/pool/ExpertWidth.h"
#include "passes/Pipeline.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace moec {

/// A layer's experts are probed together. Deep models would need more probes than the search may
/// measure, so neighbouring layers then share a probe.
constexpr size_t kMaxLayerGroups = 12;

/// Borrows the pool. One thread.
class WidthItems {
public:
  /// grids: so many of the pool's, the first ones, are the options. residents: the classes whose
  /// width is searched for.
  static moert::Result<WidthItems> create(const ExpertPool &pool, size_t grids,
                                          const CalibrationInfo &info,
                                          std::vector<ResidentClass> residents,
                                          QuantizeMethod method,
                                          const mlir::moe::CompileOptions &passes);

  /// Costs are bytes, losses squared errors. The caller sets target and limits.
  const WidthSearchInput &input() const { return search; }

  GridChoice gridsOf(const WidthAssignment &assignment) const;
  /// By MoE layer, in the order of its experts.
  std::vector<std::vector<ExpertWidth>> expertWidthsOf(const WidthAssignment &assignment) const;
  /// Those of gate and up; and those of down, empty where all experts have them for down too.
  std::vector<std::vector<int32_t>> expertBitsOf(const WidthAssignment &assignment) const;
  std::vector<std::vector<int32_t>> expertDownBitsOf(const WidthAssignment &assignment) const;
  /// By symbol.
  std::map<std::string, uint32_t> residentBitsOf(const WidthAssignment &assignment) const;
  /// Bytes of the slices, including scales, without padding.
  uint64_t expertBytesOf(const WidthAssignment &assignment) const;
  uint64_t residentBytesOf(const WidthAssignment &assignment) const;

private:
  WidthItems(const ExpertPool &from, size_t count)
      : pool(&from), grids(std::span(from.grids()).first(count)) {}
  void addLayer(size_t layer, const CalibrationInfo::MoeLayer &seen, uint32_t group);
  moert::Status addClass(const ResidentClass &matrices, QuantizeMethod method,
                         const mlir::moe::CompileOptions &passes, uint32_t group);
  size_t expertItems() const { return search.problem.items.size() - classes.size(); }

  const ExpertPool *pool;
  std::span<const ExpertGrid> grids;  // The pool's.
  std::vector<ResidentClass> classes; // Their items follow those of the experts.
  WidthSearchInput search;
};

} // namespace moec
