// A judge of widths whose true losses are known.
#pragma once

#include "compiler/plan/WidthSearch.h"

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace moec::test {

inline constexpr size_t kLayers = 6, kExperts = 16;
inline constexpr double kBytesPerBit = 1000;
inline constexpr double kSpread = 0.1; // Standard error of a predicted bound, relative to it.

/// Bits of a weight of gate and up, and of down.
struct SyntheticWidth {
  uint32_t bits, downBits;
  double meanBits() const { return double(2 * bits + downBits) / 3; }
};

/// Layers of experts and two classes of resident weights, whose true losses are known: a squared
/// error costs each layer differently, losses add up, and text differs from text by a factor.
struct SyntheticWidths : WidthJudge {
  WidthSearchInput input;
  std::vector<std::vector<double>> nats; // The truth, of each item and option.
  double baseNats = 0.0002;
  double acceptanceFactor = 1; // How much more is lost on text not seen.
  uint32_t probes = 0, measures = 0;
  std::vector<std::pair<AcceptanceChain, WidthAssignment>> tested;
  std::map<WidthAssignment, double> bounds; // That acceptance tests found.

  /// downError: down's part of an expert's squared error where all matrices have one width.
  explicit SyntheticWidths(
      double target, uint32_t seed = 3,
      const std::vector<SyntheticWidth> &widths = {{8, 8}, {6, 6}, {4, 4}, {3, 3}, {2, 2}},
      double downError = 0.5) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> unit(0, 1);
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      double sensitivity = std::exp(2 * unit(random));
      for (size_t e = 0; e < kExperts; ++e) {
        double size = std::exp(3 * unit(random));
        WidthItem item{"layer " + std::to_string(layer) + " expert " + std::to_string(e), {}};
        std::vector<double> truth;
        for (const SyntheticWidth &width : widths) {
          double error = size * ((1 - downError) * std::pow(4.0, -double(width.bits)) +
                                 downError * std::pow(4.0, -double(width.downBits)));
          item.options.push_back({width.meanBits(), width.meanBits() * kBytesPerBit, error});
          truth.push_back(0.002 * sensitivity * error);
        }
        add(item, layer, false, truth);
      }
    }
    for (uint32_t resident = 0; resident < 2; ++resident)
      add({"resident " + std::to_string(resident),
           {{16, 16 * kBytesPerBit, 0}, {8, 8 * kBytesPerBit, 0}, {4, 4 * kBytesPerBit, 0}}},
          uint32_t(kLayers) + resident, true, {0, 0.0001, 0.004 * (1 + resident)});
    input.target = target;
  }

  void add(WidthItem item, uint32_t group, bool isProbedDirectly, std::vector<double> truth) {
    input.problem.items.push_back(std::move(item));
    input.groups.push_back(group);
    input.isProbedDirectly.push_back(isProbedDirectly);
    nats.push_back(std::move(truth));
  }

  double costOf(const WidthAssignment &assignment) const {
    return totalsOf(input.problem, assignment).cost;
  }
  double natsOf(const WidthAssignment &assignment) const {
    double sum = baseNats;
    for (size_t i = 0; i < assignment.size(); ++i)
      sum += nats[i][assignment[i]];
    return sum;
  }
  Measurement measured(double klNats) const {
    const double loss = std::exp(klNats) - 1;
    return {loss, loss * 1.08, kSpread, klNats, 0};
  }

  moert::Result<double> probe(const WidthAssignment &assignment) override {
    ++probes;
    return natsOf(assignment);
  }
  moert::Result<Measurement> measure(const WidthAssignment &assignment) override {
    ++measures;
    return measured(natsOf(assignment));
  }
  virtual double boundOf(const WidthAssignment &assignment) const {
    return measured(natsOf(assignment) * acceptanceFactor).predictedBound;
  }
  moert::Result<TestResult> accept(const WidthAssignment &assignment,
                                   AcceptanceChain chain) override {
    tested.emplace_back(chain, assignment);
    const double bound = bounds[assignment] = boundOf(assignment);
    return bound <= input.target ? TestResult::kPassed : TestResult::kFailed;
  }
};

} // namespace moec::test
