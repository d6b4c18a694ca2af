// Where the search measures one loss and the acceptance another one: how much of the first the
// second allows, which nobody knows beforehand and looks tell.
//
// Answers are such a loss: a few hundred of them cannot steer a search, divergence can. The more an
// artifact diverges, the more answers it loses; how many, and how wide their bound is, grows with
// some power of the divergence between its square root (answers turn with the size of an error,
// which divergence is the square of) and itself. So a bound below the target lets the bar rise in
// proportion at most, and one above lets it fall with the square of it, or once two looks have
// failed with the power that they show: all end on the safe side.
#pragma once

#include <limits>

namespace moec {

/// What looks have said so far. Belongs to one search.
class ProxyBar {
public:
  /// Of the acceptance's loss; more than 0.
  explicit ProxyBar(double acceptedTarget) : target(acceptedTarget) {}

  /// The bar after a look: `measured` is what the search had measured there, in its unit; `bound`
  /// what the acceptance found, in its own; nothing lost and less than that included.
  double after(double measured, double bound);

private:
  struct Failure {
    double measured, bound;
  };
  static double powerBetween(const Failure &before, const Failure &now);

  double target;
  double good = 0; // The most measured where a look met the target...
  double bad = std::numeric_limits<double>::infinity(); // ...and the least where one did not.
  Failure failed{0, 0};                                 // The last one; 0: none yet.
};

} // namespace moec
