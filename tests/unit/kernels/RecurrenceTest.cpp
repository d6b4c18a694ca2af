// The kernels of sequences with states: every version against the reference, the reference against
// float64, and a sequence in pieces against the whole.
#include "tests/unit/kernels/TestMatrices.h"

using namespace moert;
using namespace moert::test;

namespace {

constexpr uint32_t kTokens = 9;

std::vector<float> randomVector(Random &random, size_t size, float low, float high) {
  std::vector<float> values(size);
  for (float &value : values)
    value = random.between(low, high);
  return values;
}

/// `taps` of each of `width` elements in panels, as float matrices are stored.
std::vector<float> panelsOf(const std::vector<float> &rows, uint32_t width, uint32_t taps) {
  std::vector<float> panels(roundUp(width, kPanelRows) * taps);
  for (uint32_t i = 0; i < width; ++i)
    for (uint32_t tap = 0; tap < taps; ++tap)
      panels[(uint64_t(i / kPanelRows) * taps + tap) * kPanelRows + i % kPanelRows] =
          rows[uint64_t(i) * taps + tap];
  return panels;
}

/// All tokens of a convolution, elements [0, split) and [split, width) computed separately.
FloatRows convolved(const KernelTable &kernels, const FloatRows &x,
                    const std::vector<float> &panels, uint32_t taps, bool silu, uint32_t split) {
  FloatRows y(x.rows, x.cols);
  std::vector<float> tail(uint64_t(taps - 1) * x.cols, 0.0f);
  for (uint32_t token = 0; token < x.rows; ++token)
    for (auto [begin, end] : {std::pair(0u, split), std::pair(split, x.cols)})
      kernels.convolve(&x.at(token, 0), panels.data(), taps, tail.data(), x.cols, token, silu,
                       begin, end, &y.at(token, 0));
  CHECK(y.isGuardIntact());
  return y;
}

/// A head's vectors of all tokens.
struct HeadInputs {
  HeadInputs(Random &random, uint32_t keyDim, uint32_t valueDim)
      : query(kTokens, keyDim), key(kTokens, keyDim), value(kTokens, valueDim) {
    query.fill(random, -1, 1);
    key.fill(random, -0.3f, 0.3f);
    value.fill(random, -2, 2);
    decay = randomVector(random, kTokens * keyDim, 0, 1);
    write = randomVector(random, kTokens, 0, 1);
  }
  FloatRows query, key, value;
  std::vector<float> decay, write; // A token's decay is the first of those of its keys' elements.
};

FloatRows deltaOf(const KernelTable &kernels, const HeadInputs &in, bool perRow,
                  std::vector<float> &state) {
  FloatRows out(kTokens, in.value.cols);
  for (uint32_t t = 0; t < kTokens; ++t)
    kernels.deltaRule(&in.query.at(t, 0), &in.key.at(t, 0), &in.value.at(t, 0),
                      &in.decay[t * in.key.cols], perRow, in.write[t], 0.25f, in.key.cols,
                      in.value.cols, state.data(), &out.at(t, 0));
  CHECK(out.isGuardIntact());
  return out;
}

FloatRows spaceOf(const KernelTable &kernels, const HeadInputs &in, std::vector<float> &state) {
  FloatRows out(kTokens, in.value.cols);
  for (uint32_t t = 0; t < kTokens; ++t)
    kernels.stateSpace(&in.query.at(t, 0), &in.key.at(t, 0), &in.value.at(t, 0), in.decay[t],
                       in.write[t], 0.75f, in.key.cols, in.value.cols, state.data(), &out.at(t, 0));
  CHECK(out.isGuardIntact());
  return out;
}

/// The inputs of a selective scan of `width` elements.
struct ScanInputs {
  ScanInputs(Random &random, uint32_t keyDim, uint32_t width)
      : head(random, keyDim, width), step(kTokens, width),
        rates(randomVector(random, uint64_t(width) * keyDim, -2, 2)),
        skip(randomVector(random, width, -1, 1)), panels(panelsOf(rates, width, keyDim)) {
    step.fill(random, 0, 1);
  }
  HeadInputs head;
  FloatRows step;
  std::vector<float> rates, skip, panels; // rates [width][keyDim].
};

/// All tokens, elements [0, split) and [split, width) computed separately.
FloatRows scanOf(const KernelTable &kernels, const ScanInputs &in, uint32_t split,
                 std::vector<float> &state) {
  const HeadInputs &head = in.head;
  FloatRows out(kTokens, head.value.cols);
  for (uint32_t t = 0; t < kTokens; ++t)
    for (auto [begin, end] : {std::pair(0u, split), std::pair(split, head.value.cols)})
      kernels.selectiveScan(&head.query.at(t, 0), &head.key.at(t, 0), &head.value.at(t, 0),
                            &in.step.at(t, 0), in.panels.data(), in.skip.data(), head.key.cols,
                            head.value.cols, begin, end, state.data(), &out.at(t, 0));
  CHECK(out.isGuardIntact());
  return out;
}

} // namespace

TEST_CASE("convolve gives the reference's bytes, however its elements are divided") {
  Random random(1);
  for (uint32_t width : {16u, 23u, 64u, 100u})
    for (uint32_t taps : {2u, 3u, 4u, 7u})
      for (bool silu : {false, true}) {
        CAPTURE(width);
        CAPTURE(taps);
        FloatRows x(kTokens, width);
        x.fill(random, -3, 3);
        const auto panels = panelsOf(randomVector(random, width * taps, -1, 1), width, taps);
        const FloatRows expected = convolved(referenceKernels(), x, panels, taps, silu, width);
        forEachVersion([&](const KernelTable &kernels) {
          CHECK(convolved(kernels, x, panels, taps, silu, 16).isSameAs(expected));
        });
      }
}

TEST_CASE("convolve sums the last inputs, those before the first being 0, and may be in place") {
  Random random(2);
  constexpr uint32_t kWidth = 20, kTaps = 4;
  FloatRows x(kTokens, kWidth);
  x.fill(random, -3, 3);
  const auto taps = randomVector(random, kWidth * kTaps, -1, 1);
  const auto panels = panelsOf(taps, kWidth, kTaps);
  const FloatRows y = convolved(referenceKernels(), x, panels, kTaps, false, kWidth);
  for (uint32_t token = 0; token < kTokens; ++token)
    for (uint32_t i = 0; i < kWidth; ++i) {
      double sum = 0;
      for (uint32_t tap = 0; tap < kTaps; ++tap)
        if (token + tap + 1 >= kTaps)
          sum += double(taps[i * kTaps + tap]) * x.at(token + tap + 1 - kTaps, i);
      // Four roundings of sums below 12.
      CHECK(y.at(token, i) == doctest::Approx(sum).epsilon(4e-6));
    }
  forEachVersion([&](const KernelTable &kernels) {
    std::vector<float> tail(3 * kWidth, 0.0f), row(kWidth);
    for (uint32_t token = 0; token < kTokens; ++token) {
      std::copy_n(&x.at(token, 0), kWidth, row.begin());
      kernels.convolve(row.data(), panels.data(), kTaps, tail.data(), kWidth, token, false, 0,
                       kWidth, row.data());
      for (uint32_t i = 0; i < kWidth; ++i)
        CHECK(row[i] == y.at(token, i));
    }
  });
}

TEST_CASE("deltaRule gives the reference's bytes, for the results and the state") {
  Random random(3);
  for (uint32_t keyDim : {1u, 5u, 16u, 128u})
    for (uint32_t valueDim : {1u, 7u, 16u, 33u, 64u, 100u, 128u})
      for (bool perRow : {false, true}) {
        CAPTURE(keyDim);
        CAPTURE(valueDim);
        CAPTURE(perRow);
        const HeadInputs in(random, keyDim, valueDim);
        std::vector<float> expectedState(uint64_t(keyDim) * valueDim, 0.0f);
        const FloatRows expected = deltaOf(referenceKernels(), in, perRow, expectedState);
        forEachVersion([&](const KernelTable &kernels) {
          std::vector<float> state(expectedState.size(), 0.0f);
          CHECK(deltaOf(kernels, in, perRow, state).isSameAs(expected));
          CHECK(state == expectedState);
        });
      }
}

/// The gated delta rule in double, and the results of the reference compared with it.
static void checkDeltaRule(bool perRow) {
  Random random(4);
  constexpr uint32_t kKeyDim = 12, kValueDim = 20;
  const HeadInputs in(random, kKeyDim, kValueDim);
  std::vector<float> state(kKeyDim * kValueDim, 0.0f);
  const FloatRows out = deltaOf(referenceKernels(), in, perRow, state);
  std::vector<double> exact(state.size(), 0.0);
  for (uint32_t t = 0; t < kTokens; ++t)
    for (uint32_t d = 0; d < kValueDim; ++d) {
      double recalled = 0, read = 0;
      for (uint32_t i = 0; i < kKeyDim; ++i) {
        exact[i * kValueDim + d] *= in.decay[t * kKeyDim + (perRow ? i : 0)];
        recalled += in.key.at(t, i) * exact[i * kValueDim + d];
      }
      for (uint32_t i = 0; i < kKeyDim; ++i) {
        double &element = exact[i * kValueDim + d];
        element += in.key.at(t, i) * (in.write[t] * (in.value.at(t, d) - recalled));
        read += in.query.at(t, i) * element;
      }
      // Sums of 12 products below 1, over 9 tokens.
      CHECK(std::fabs(out.at(t, d) - 0.25 * read) < 2e-6);
    }
}

TEST_CASE("deltaRule computes the gated delta rule, with a decay per head or per row") {
  checkDeltaRule(false);
  checkDeltaRule(true);
}

TEST_CASE("stateSpace gives the reference's bytes, for the results and the state") {
  Random random(7);
  for (uint32_t keyDim : {1u, 5u, 16u, 128u})
    for (uint32_t valueDim : {1u, 7u, 16u, 33u, 64u}) {
      CAPTURE(keyDim);
      CAPTURE(valueDim);
      const HeadInputs in(random, keyDim, valueDim);
      std::vector<float> expectedState(uint64_t(keyDim) * valueDim, 0.0f);
      const FloatRows expected = spaceOf(referenceKernels(), in, expectedState);
      forEachVersion([&](const KernelTable &kernels) {
        std::vector<float> state(expectedState.size(), 0.0f);
        CHECK(spaceOf(kernels, in, state).isSameAs(expected));
        CHECK(state == expectedState);
      });
    }
}

TEST_CASE("stateSpace computes the state space of Mamba-2") {
  Random random(8);
  constexpr uint32_t kKeyDim = 12, kValueDim = 20;
  const HeadInputs in(random, kKeyDim, kValueDim);
  std::vector<float> state(kKeyDim * kValueDim, 0.0f);
  const FloatRows out = spaceOf(referenceKernels(), in, state);
  std::vector<double> exact(state.size(), 0.0);
  for (uint32_t t = 0; t < kTokens; ++t)
    for (uint32_t d = 0; d < kValueDim; ++d) {
      double read = 0.75 * in.value.at(t, d);
      for (uint32_t i = 0; i < kKeyDim; ++i) {
        double &element = exact[i * kValueDim + d];
        element = in.decay[t] * element + in.write[t] * double(in.key.at(t, i)) * in.value.at(t, d);
        read += in.query.at(t, i) * element;
      }
      // Sums of 12 products below 1, over 9 tokens.
      CHECK(std::fabs(out.at(t, d) - read) < 5e-6);
    }
}

TEST_CASE("selectiveScan gives the reference's bytes, however its elements are divided") {
  Random random(9);
  for (uint32_t keyDim : {1u, 5u, 16u})
    for (uint32_t width : {16u, 23u, 64u, 100u}) {
      CAPTURE(keyDim);
      CAPTURE(width);
      const ScanInputs in(random, keyDim, width);
      std::vector<float> expectedState(uint64_t(keyDim) * width, 0.0f);
      const FloatRows expected = scanOf(referenceKernels(), in, width, expectedState);
      forEachVersion([&](const KernelTable &kernels) {
        std::vector<float> state(expectedState.size(), 0.0f);
        CHECK(scanOf(kernels, in, 16, state).isSameAs(expected));
        CHECK(state == expectedState);
      });
    }
}

TEST_CASE("selectiveScan computes the recurrence of Mamba-1") {
  Random random(10);
  constexpr uint32_t kKeyDim = 6, kWidth = 20;
  const ScanInputs in(random, kKeyDim, kWidth);
  std::vector<float> state(kKeyDim * kWidth, 0.0f);
  const FloatRows out = scanOf(referenceKernels(), in, kWidth, state);
  std::vector<double> exact(state.size(), 0.0);
  for (uint32_t t = 0; t < kTokens; ++t)
    for (uint32_t d = 0; d < kWidth; ++d) {
      const double step = in.step.at(t, d), value = in.head.value.at(t, d);
      double read = in.skip[d] * value;
      for (uint32_t i = 0; i < kKeyDim; ++i) {
        double &element = exact[i * kWidth + d];
        element = std::exp(-std::exp(double(in.rates[d * kKeyDim + i])) * step) * element +
                  in.head.key.at(t, i) * step * value;
        read += in.head.query.at(t, i) * element;
      }
      CHECK(std::fabs(out.at(t, d) - read) < 5e-6);
    }
}

TEST_CASE("apply gives the reference's bytes for all functions, in place too") {
  Random random(11);
  for (uint8_t number = 0; number <= uint8_t(kLast<RowFunction>); ++number)
    for (uint32_t width : {1u, 15u, 16u, 100u}) {
      const auto function = RowFunction(number);
      const auto x = randomVector(random, width, -4, 4),
                 factor = randomVector(random, width, -2, 2),
                 bias = randomVector(random, width, -20, 20);
      std::vector<float> expected(width);
      referenceKernels().apply(function, x.data(), factor.data(), bias.data(), width,
                               expected.data());
      for (uint32_t i = 0; i < width; ++i) {
        const double of = double(factor[i] * x[i] + bias[i]);
        const double exact = function == RowFunction::kSilu          ? of / (1 + std::exp(-of))
                             : function == RowFunction::kSoftplus    ? std::log1p(std::exp(of))
                             : function == RowFunction::kSquaredRelu ? (of > 0 ? of * of : 0)
                             : function == RowFunction::kRelu        ? (of > 0 ? of : 0)
                             : function == RowFunction::kTanh        ? std::tanh(of)
                             : function == RowFunction::kSignedRoot
                                 ? std::copysign(std::sqrt(std::max(std::fabs(of), 1e-6)), of)
                             : function == RowFunction::kGelu
                                 ? of * std::erfc(-of / std::sqrt(2)) / 2
                                 : of;
        // The approximation of the normal distribution has an absolute error, and 1 - e of tanh.
        const double size = function == RowFunction::kGelu   ? of
                            : function == RowFunction::kTanh ? 1
                                                             : exact;
        CHECK(std::fabs(expected[i] - exact) <= 3e-7 * std::fabs(size));
      }
      forEachVersion([&](const KernelTable &kernels) {
        std::vector<float> y = x, plain = x, plainExpected(width);
        kernels.apply(function, y.data(), factor.data(), bias.data(), width, y.data());
        CHECK(y == expected);
        referenceKernels().apply(function, x.data(), nullptr, nullptr, width, plainExpected.data());
        kernels.apply(function, plain.data(), nullptr, nullptr, width, plain.data());
        CHECK(plain == plainExpected);
      });
    }
}

TEST_CASE("unitNorm gives the reference's bytes and rows of length 1") {
  Random random(5);
  for (uint32_t segment : {1u, 7u, 16u, 24u, 128u}) {
    FloatRows x(3, 4 * segment), expected(3, 4 * segment);
    x.fill(random, -2, 2);
    for (uint32_t row = 0; row < 3; ++row)
      std::copy_n(&x.at(row, 0), x.cols, &expected.at(row, 0));
    referenceKernels().unitNorm(expected.data(), expected.stride(), 3, x.cols, segment, 1e-6f);
    double squares = 0, length = 0;
    for (uint32_t i = 0; i < segment; ++i) {
      squares += double(x.at(1, segment + i)) * x.at(1, segment + i);
      length += double(expected.at(1, segment + i)) * expected.at(1, segment + i);
    }
    CHECK(length == doctest::Approx(squares / (squares + 1e-6)).epsilon(1e-6));
    forEachVersion([&](const KernelTable &kernels) {
      FloatRows y(3, x.cols);
      for (uint32_t row = 0; row < 3; ++row)
        std::copy_n(&x.at(row, 0), x.cols, &y.at(row, 0));
      kernels.unitNorm(y.data(), y.stride(), 3, x.cols, segment, 1e-6f);
      CHECK(y.isSameAs(expected));
      CHECK(y.isGuardIntact());
    });
  }
}

TEST_CASE("decay is correctly rounded but for the last bits of double") {
  const std::vector<float> x = {-100, -20, -1, 0, 0.5f, 3, 30, 200, NAN, HUGE_VALF},
                           bias = {0, 0.25f, -3, 0, 1, 2, 0, 0, 0, 0};
  const auto exactly = [](double step, double rate, double bound) {
    const double softplus =
        step > 0 ? step + std::log1p(std::exp(-step)) : std::log1p(std::exp(step));
    return std::exp(bound < 0 ? bound / (1 + std::exp(-rate * step)) : -rate * softplus);
  };
  forEachVersion([&](const KernelTable &kernels) {
    for (const float rate : {0.0f, 1.0f, -4.0f, 2.5f, -20.0f, 4.0f})
      for (const float bound : {0.0f, -5.0f, -0.25f}) {
        std::vector<float> y = x; // In place.
        kernels.decay(y.data(), rate, bias.data(), bound, uint32_t(y.size()), y.data());
        for (size_t i = 0; i + 2 < x.size(); ++i) {
          const auto exact =
              static_cast<float>(exactly(double(x[i]) + bias[i], std::exp(double(rate)), bound));
          CHECK(std::fabs(y[i] - exact) <= 1.2e-7f * exact);
        }
        CHECK(std::isnan(y[8]));
        CHECK(std::isnan(y[9]));
      }
  });
}

TEST_CASE("gate gives the reference's bytes for both kinds, in place too") {
  Random random(6);
  for (GateKind kind : {GateKind::kSigmoid, GateKind::kLinear})
    for (uint32_t width : {1u, 15u, 16u, 100u}) {
      const auto x = randomVector(random, width, -4, 4),
                 factor = randomVector(random, width, -90, 90);
      std::vector<float> expected(width);
      referenceKernels().gate(kind, x.data(), factor.data(), width, expected.data());
      for (uint32_t i = 0; i < width; ++i) {
        const double by =
            kind == GateKind::kLinear ? double(factor[i]) : 1 / (1 + std::exp(-double(factor[i])));
        CHECK(std::fabs(expected[i] - by * x[i]) <= 1e-6 * std::fabs(by * x[i]) + 1e-37);
      }
      forEachVersion([&](const KernelTable &kernels) {
        std::vector<float> y = x, onGate = factor;
        kernels.gate(kind, y.data(), factor.data(), width, y.data());
        kernels.gate(kind, x.data(), onGate.data(), width, onGate.data());
        CHECK(y == expected);
        CHECK(onGate == expected);
      });
    }
}
