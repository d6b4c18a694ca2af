// The ways to choose widths. Each takes a problem that check() accepts and proposes an assignment
// that verify() accepts, or reports that there is none; the same problem gives the same assignment
// on every machine.
#pragma once

#include "compiler/plan/WidthProblem.h"

namespace moec {

/// Each item's option of the most bits that are at most `bits`; its last one where it has none.
WidthAssignment uniformAssignment(const WidthProblem &problem, double bits);

/// The multiple-choice knapsack: one option of each item, the least cost within the loss limit.
///
/// Lagrangian relaxation: for a price of loss every item takes the option of the least cost + price
/// * loss, which are the corners of its lower convex hull. Beginning with the least loss
/// everywhere, the corners are taken in the order of cost saved per loss added, for as long as the
/// limit allows; a step that does not fit is passed over, and with it the item's later ones. Then
/// greedy repair: options inside of the hulls fill what is left, the largest saving first, and
/// exchanges of two steps are tried while they help. The cost is above the optimum by less than the
/// largest single step of an item, since the relaxation without its last step is a lower bound;
/// with hundreds of items that is nothing. (The exact dynamic programme needs losses as whole
/// numbers, and to round hundreds of them costs more than this.)
moert::Result<WidthAssignment> solveKnapsack(const WidthProblem &problem);

/// What no assignment within the limit can be cheaper than: the relaxation, where the last step may
/// be taken in part.
double knapsackLowerBound(const WidthProblem &problem);

/// EdgeMoE (Yi et al., "EdgeMoE: Empowering Sparse Large Language Models on Mobile Devices"),
/// section III-B, "Selecting expert-wise bitwidths": between two widths of all experts, those of
/// the least importance get the lower one. The paper quantizes experts "into different bitwidths,
/// e.g. INT2/4/8": an expert has one width, so the search gives this solver whole widths only, and
/// no wider down projection.
struct EdgeMoeList {
  double highBits = 0, lowBits = 0;
  /// Items that have both widths, the least important first. The importance is the loss that the
  /// item adds at the list's lowest width with the rest higher, "sorted by the model accuracy when
  /// a corresponding expert is quantized into INT2"; there it is measured for every expert on its
  /// own, here it is the problem's estimate.
  std::vector<uint32_t> items;
};
EdgeMoeList edgeMoeList(const WidthProblem &problem, double highBits, double lowBits,
                        double importanceBits = 2);

/// The first `count` of the list at the lower width, everything else at the higher one.
WidthAssignment edgeMoeAssignment(const WidthProblem &problem, const EdgeMoeList &list,
                                  size_t count);

} // namespace moec
