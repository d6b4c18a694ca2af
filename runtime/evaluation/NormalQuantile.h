// Quantiles of the standard normal distribution, the same bits on every machine.
#pragma once

namespace moert {

/// The x that a standard normal variable stays below with this probability, 0.5 to 1 - 1e-16:
/// Wichura's algorithm AS 241 (Applied Statistics 37, 1988), relative error about 1e-16.
double upperNormalQuantile(double probability);

} // namespace moert
