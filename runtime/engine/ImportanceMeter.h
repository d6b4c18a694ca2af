// How important the experts of a layer are to the tokens of a step, for plans whose eviction is by
// importance: |x| * G * |E| of the experts that the router chose, in memory or not
// (runtime/policy/Eviction.h). An engine without such a plan has none.
#pragma once

#include "runtime/engine/Step.h"
#include "runtime/policy/Plan.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace moert {

/// Borrows the norms of the plan in use. Sized once, for the layer with the most experts.
class ImportanceMeter {
public:
  explicit ImportanceMeter(const Artifact &artifact);

  /// Follows a plan's eviction; nothing is measured where it is not by importance.
  void takePlan(const Plan &plan);
  bool isOn() const { return measures; }

  /// Measures the input of a product if it computes the scores of the next route. Right after the
  /// product: its input may be overwritten before the route. An earlier product into the same
  /// buffer is measured in vain.
  void measureRouterInput(Step &step, const LinearInstruction &linear) const;
  void beginLayer();
  /// Adds the importance that a row gives to the experts that its router chose.
  void add(Step &step, const RouteInstruction &route, uint32_t row);
  /// Per expert: what the last route adds.
  std::span<const uint64_t> importances(uint32_t experts) const {
    return std::span(sums).first(experts);
  }

private:
  std::vector<std::pair<const Program *, std::vector<const RouteInstruction *>>> routes;
  bool measures = false;
  std::span<const std::vector<uint32_t>> expertNorms; // The plan's, per MoE layer.
  std::vector<uint64_t> sums;
};

/// The routes of a program by MoE layer; null for layers that it does not route.
std::vector<const RouteInstruction *> routesOf(const Artifact &artifact, const Program &program);

} // namespace moert
