// The kernels that work along rows: every version against the reference, sizes from 1 up, numbers
// of every kind.
#include "tests/unit/kernels/TestMatrices.h"

using namespace moert;
using namespace moert::test;

namespace {

constexpr uint32_t kSizes[] = {1, 2, 15, 16, 17, 31, 48, 100, 257};
constexpr uint32_t kRows = 3;

/// Mostly ordinary numbers, with zeros, subnormals, infinities and NaNs among them.
void fillWithSpecials(Random &random, FloatRows &rows) {
  constexpr float kSpecials[] = {0.0f,      -0.0f,      HUGE_VALF, -HUGE_VALF, NAN,
                                 0x1p-149f, -0x1p-140f, 3.4e38f,   -3.4e38f,   88.8f,
                                 -88.8f,    0x1p-126f,  1e-30f,    -1e30f};
  for (uint32_t row = 0; row < rows.rows; ++row)
    for (uint32_t col = 0; col < rows.cols; ++col)
      rows.at(row, col) = random.below(6) == 0 ? kSpecials[random.below(std::size(kSpecials))]
                                               : random.between(-20, 20);
}

/// Runs an operation of each version on the same inputs, ordinary and special ones, and compares
/// the rows x cols outputs.
using Operation =
    std::function<void(const KernelTable &, const FloatRows &a, const FloatRows &b, FloatRows &y)>;
void compareVersions(const Operation &operation) {
  Random random(1);
  for (uint32_t size : kSizes)
    for (bool hasSpecials : {false, true}) {
      CAPTURE(size);
      CAPTURE(hasSpecials);
      FloatRows a(kRows, size), b(kRows, size), expected(kRows, size);
      for (FloatRows *rows : {&a, &b})
        if (hasSpecials)
          fillWithSpecials(random, *rows);
        else
          rows->fill(random, -20, 20);
      operation(referenceKernels(), a, b, expected);
      CHECK(expected.isGuardIntact());
      forEachVersion([&](const KernelTable &kernels) {
        FloatRows y(kRows, size);
        operation(kernels, a, b, y);
        CHECK(y.isSameAs(expected));
        CHECK(y.isGuardIntact());
      });
    }
}

} // namespace

TEST_CASE("addBias gives the reference's bytes") {
  compareVersions(
      [](const KernelTable &kernels, const FloatRows &a, const FloatRows &b, FloatRows &y) {
        kernels.addBias(a.data(), a.stride(), b.data(), kRows, a.cols, y.data(), y.stride());
      });
}

TEST_CASE("siluMultiply gives the reference's bytes") {
  compareVersions(
      [](const KernelTable &kernels, const FloatRows &a, const FloatRows &b, FloatRows &y) {
        kernels.siluMultiply(a.data(), b.data(), kRows, a.cols, a.stride(), y.data());
      });
}

TEST_CASE("clampedSwiglu gives the reference's bytes") {
  compareVersions([](const KernelTable &kernels, const FloatRows &a, const FloatRows &b,
                     FloatRows &y) {
    kernels.clampedSwiglu(1.702f, 7, 1, a.data(), b.data(), kRows, a.cols, a.stride(), y.data());
  });
}

TEST_CASE("an activation is computed by the kernel of its kind") {
  Random random(8);
  FloatRows gate(1, 40), up(1, 40), expected(1, 40), y(1, 40);
  gate.fill(random, -9, 9);
  up.fill(random, -9, 9);
  const KernelTable &kernels = referenceKernels();
  kernels.siluMultiply(gate.data(), up.data(), 1, 40, gate.stride(), expected.data());
  activate(kernels, {}, gate.data(), up.data(), 1, 40, gate.stride(), y.data());
  CHECK(y.isSameAs(expected));
  kernels.clampedSwiglu(1.5f, 3, 1, gate.data(), up.data(), 1, 40, gate.stride(), expected.data());
  activate(kernels, {Activation::kClampedSwiglu, 1.5f, 3}, gate.data(), up.data(), 1, 40,
           gate.stride(), y.data());
  CHECK(y.isSameAs(expected));
  kernels.clampedSwiglu(1, 3, 0, gate.data(), up.data(), 1, 40, gate.stride(), expected.data());
  activate(kernels, {Activation::kClampedSilu, 1, 3}, gate.data(), up.data(), 1, 40, gate.stride(),
           y.data());
  CHECK(y.isSameAs(expected));
  kernels.geluTanhMultiply(gate.data(), up.data(), 1, 40, gate.stride(), expected.data());
  activate(kernels, {Activation::kGeluTanh}, gate.data(), up.data(), 1, 40, gate.stride(),
           y.data());
  CHECK(y.isSameAs(expected));
}

TEST_CASE("the reference's clamped SwiGLU clamps the gate from above and up from both sides") {
  // Fewer than 16 roundings of 2^-24 relative to the product of both factors; up + 1 cancels near
  // -1, where its error is that of up.
  const KernelTable &kernels = referenceKernels();
  Random random(9);
  FloatRows gate(1, 333), up(1, 333), y(1, 333);
  gate.fill(random, -12, 12);
  up.fill(random, -12, 12);
  kernels.clampedSwiglu(1.702f, 7, 1, gate.data(), up.data(), 1, 333, gate.stride(), y.data());
  for (uint32_t i = 0; i < 333; ++i) {
    const double g = std::min(double(gate.at(0, i)), 7.0);
    const double u = std::clamp(double(up.at(0, i)), -7.0, 7.0);
    const double swish = g / (1 + std::exp(-double(1.702f) * g));
    // The exponent's rounding is relative to 1.702 * 12 = 20 there: up to 32 roundings.
    CHECK(std::fabs(y.at(0, i) - swish * (u + 1)) <= 64 * 0x1p-24 * std::fabs(swish) * 8);
  }
  gate.at(0, 0) = std::nanf("");
  gate.at(0, 1) = 1;
  up.at(0, 1) = std::nanf("");
  kernels.clampedSwiglu(1.702f, 7, 1, gate.data(), up.data(), 1, 2, gate.stride(), y.data());
  CHECK(std::isnan(y.at(0, 0)));
  CHECK(std::isnan(y.at(0, 1)));
}

TEST_CASE("geluTanhMultiply gives the reference's bytes") {
  compareVersions(
      [](const KernelTable &kernels, const FloatRows &a, const FloatRows &b, FloatRows &y) {
        kernels.geluTanhMultiply(a.data(), b.data(), kRows, a.cols, a.stride(), y.data());
      });
}

TEST_CASE("scale gives the reference's bytes") {
  compareVersions(
      [](const KernelTable &kernels, const FloatRows &a, const FloatRows &, FloatRows &y) {
        for (uint32_t row = 0; row < kRows; ++row)
          kernels.scale(&a.at(row, 0), -0.3f, a.cols, &y.at(row, 0));
      });
}

TEST_CASE("softCap gives the reference's bytes") {
  for (float limit : {0.5f, 30.0f, 1e6f})
    compareVersions(
        [&](const KernelTable &kernels, const FloatRows &a, const FloatRows &, FloatRows &y) {
          for (uint32_t row = 0; row < kRows; ++row) {
            std::copy_n(&a.at(row, 0), a.cols, &y.at(row, 0));
            kernels.softCap(limit, a.cols, &y.at(row, 0));
          }
        });
}

TEST_CASE("the reference's soft cap is limit * tanh(x / limit)") {
  std::vector<float> x = {0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, 1e-20f, -1e-20f};
  for (int i = -400; i <= 400; ++i)
    x.push_back(static_cast<float>(i) / 3);
  std::vector<float> capped = x;
  referenceKernels().softCap(30, capped.size(), capped.data());
  for (size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    CHECK(std::fabs(capped[i] - 30 * std::tanh(double(x[i]) / 30)) <= 3e-7 * 30);
  }
}

TEST_CASE("addScaled gives the reference's bytes") {
  compareVersions(
      [](const KernelTable &kernels, const FloatRows &a, const FloatRows &b, FloatRows &y) {
        for (uint32_t row = 0; row < kRows; ++row)
          kernels.addScaled(&a.at(row, 0), &b.at(row, 0), 0.7f, a.cols, &y.at(row, 0));
      });
}

TEST_CASE("gateRows gives the reference's bytes") {
  compareVersions(
      [](const KernelTable &kernels, const FloatRows &a, const FloatRows &b, FloatRows &y) {
        kernels.gateRows(a.data(), b.data(), b.stride(), kRows, a.cols, a.stride(), y.data());
      });
}

TEST_CASE("combineRanks gives the reference's bytes") {
  compareVersions(
      [](const KernelTable &kernels, const FloatRows &a, const FloatRows &, FloatRows &y) {
        constexpr float kWeights[kRows] = {0.6f, 0.3f, -0.1f};
        for (uint32_t ranks = 1; ranks <= kRows; ++ranks)
          kernels.combineRanks(a.data(), a.stride(), kWeights, ranks, a.cols, &y.at(ranks - 1, 0));
      });
}

TEST_CASE("softmax gives the reference's bytes") {
  compareVersions(
      [](const KernelTable &kernels, const FloatRows &a, const FloatRows &, FloatRows &y) {
        for (uint32_t row = 0; row < kRows; ++row)
          kernels.softmax(&a.at(row, 0), a.cols, &y.at(row, 0));
      });
}

TEST_CASE("clamp gives the reference's bytes") {
  compareVersions(
      [](const KernelTable &kernels, const FloatRows &a, const FloatRows &, FloatRows &y) {
        for (uint32_t row = 0; row < kRows; ++row) {
          std::copy_n(&a.at(row, 0), a.cols, &y.at(row, 0));
          kernels.clamp(0.75f, a.cols, &y.at(row, 0));
        }
      });
}

TEST_CASE("the reference clamps to the limit and keeps NaN") {
  float x[] = {-3, -0.5f, 0, 0.5f, 3, std::nanf(""), HUGE_VALF, -HUGE_VALF};
  referenceKernels().clamp(0.5f, std::size(x), x);
  const float kExpected[] = {-0.5f, -0.5f, 0, 0.5f, 0.5f, 0, 0.5f, -0.5f};
  for (size_t i = 0; i < std::size(x); ++i)
    CHECK((i == 5 ? std::isnan(x[i]) : x[i] == kExpected[i]));
}

TEST_CASE("sigmoid gives the reference's bytes") {
  compareVersions(
      [](const KernelTable &kernels, const FloatRows &a, const FloatRows &, FloatRows &y) {
        for (uint32_t row = 0; row < kRows; ++row)
          kernels.sigmoid(&a.at(row, 0), a.cols, &y.at(row, 0));
      });
}

TEST_CASE("norm gives the reference's bytes for both kinds, with and without bias") {
  for (NormKind kind : {NormKind::kRms, NormKind::kLayer})
    for (bool hasBias : {false, true})
      compareVersions(
          [&](const KernelTable &kernels, const FloatRows &a, const FloatRows &b, FloatRows &y) {
            kernels.norm(kind, a.data(), a.stride(), kRows, a.cols, a.cols, &b.at(0, 0),
                         hasBias ? &b.at(1, 0) : nullptr, 1e-6f, y.data(), y.stride());
          });
}

TEST_CASE("a norm without a weight is that with a weight of 1, in every version") {
  for (NormKind kind : {NormKind::kRms, NormKind::kLayer})
    for (bool hasBias : {false, true})
      compareVersions(
          [&](const KernelTable &kernels, const FloatRows &a, const FloatRows &b, FloatRows &y) {
            const FloatRows ones = [&] {
              FloatRows rows(1, a.cols);
              for (uint32_t i = 0; i < a.cols; ++i)
                rows.at(0, i) = 1;
              return rows;
            }();
            const bool isReference = kernels.isa == Isa::kReference;
            kernels.norm(kind, a.data(), a.stride(), kRows, a.cols, a.cols,
                         isReference ? ones.data() : nullptr, hasBias ? &b.at(1, 0) : nullptr,
                         1e-6f, y.data(), y.stride());
            if (isReference) {
              FloatRows plain(kRows, a.cols);
              kernels.norm(kind, a.data(), a.stride(), kRows, a.cols, a.cols, nullptr,
                           hasBias ? &b.at(1, 0) : nullptr, 1e-6f, plain.data(), plain.stride());
              CHECK(plain.isSameAs(y));
            }
          });
}

TEST_CASE("norm treats each segment of a row separately") {
  Random random(2);
  for (uint32_t segment : {8u, 20u, 32u}) {
    FloatRows x(2, 5 * segment), weight(1, segment), expected(2, 5 * segment);
    x.fill(random, -3, 3);
    weight.fill(random, -1, 1);
    for (uint32_t row = 0; row < 2; ++row)
      for (uint32_t first = 0; first < x.cols; first += segment)
        referenceKernels().norm(NormKind::kRms, &x.at(row, first), x.stride(), 1, segment, segment,
                                weight.data(), nullptr, 1e-5f, &expected.at(row, first),
                                expected.stride());
    auto check = [&](const KernelTable &kernels) {
      FloatRows y(2, x.cols);
      kernels.norm(NormKind::kRms, x.data(), x.stride(), 2, x.cols, segment, weight.data(), nullptr,
                   1e-5f, y.data(), y.stride());
      CHECK(y.isSameAs(expected));
      CHECK(y.isGuardIntact());
    };
    check(referenceKernels());
    forEachVersion(check);
  }
}

TEST_CASE("kernels that may overwrite their inputs give the same bytes then") {
  Random random(3);
  FloatRows a(2, 70), b(2, 70);
  a.fill(random, -4, 4);
  b.fill(random, -4, 4);
  using InPlace =
      void (*)(const KernelTable &, const float *a, const float *b, uint64_t stride, float *y);
  constexpr InPlace kOperations[] = {
      [](const KernelTable &k, const float *x, const float *y, uint64_t stride, float *to) {
        k.siluMultiply(x, y, 2, 70, stride, to);
      },
      [](const KernelTable &k, const float *x, const float *y, uint64_t stride, float *to) {
        k.clampedSwiglu(1.702f, 2, 1, x, y, 2, 70, stride, to);
      },
      [](const KernelTable &k, const float *x, const float *y, uint64_t stride, float *to) {
        k.geluTanhMultiply(x, y, 2, 70, stride, to);
      },
      [](const KernelTable &k, const float *x, const float *, uint64_t stride, float *to) {
        for (int row = 0; row < 2; ++row)
          k.scale(x + row * stride, 2.5f, 70, to + row * stride);
      },
      [](const KernelTable &k, const float *x, const float *y, uint64_t stride, float *to) {
        for (int row = 0; row < 2; ++row)
          k.addScaled(x + row * stride, y + row * stride, 2.5f, 70, to + row * stride);
      },
      [](const KernelTable &k, const float *x, const float *y, uint64_t stride, float *to) {
        k.norm(NormKind::kLayer, x, stride, 2, 70, 70, y, y, 1e-5f, to, stride);
      },
      [](const KernelTable &k, const float *x, const float *y, uint64_t stride, float *to) {
        k.addBias(x, stride, y, 2, 70, to, stride);
      },
      [](const KernelTable &k, const float *x, const float *y, uint64_t stride, float *to) {
        k.gateRows(x, y, stride, 2, 70, stride, to);
      },
      [](const KernelTable &k, const float *x, const float *, uint64_t stride, float *to) {
        for (int row = 0; row < 2; ++row)
          k.softmax(x + row * stride, 70, to + row * stride);
      },
      [](const KernelTable &k, const float *x, const float *, uint64_t stride, float *to) {
        for (int row = 0; row < 2; ++row)
          k.sigmoid(x + row * stride, 70, to + row * stride);
      },
  };
  auto check = [&](const KernelTable &kernels) {
    for (InPlace operation : kOperations) {
      FloatRows apart(2, 70), inPlace(2, 70);
      operation(kernels, a.data(), b.data(), a.stride(), apart.data());
      for (uint32_t row = 0; row < 2; ++row)
        std::memcpy(&inPlace.at(row, 0), &a.at(row, 0), 70 * sizeof(float));
      operation(kernels, inPlace.data(), b.data(), a.stride(), inPlace.data());
      CHECK(inPlace.isSameAs(apart));
    }
  };
  check(referenceKernels());
  forEachVersion(check);
}

TEST_CASE("the reference's norms, softmax, sigmoid and activations are within float rounding of "
          "float64") {
  // Sums of 333 terms in 16 partial sums have about 25 roundings, the rest of each formula fewer
  // than 10, including the exponential's two; 64 roundings of 2^-24 leave room.
  constexpr double kTolerance = 64 * 0x1p-24;
  Random random(4);
  FloatRows x(1, 333), weight(1, 333), bias(1, 333), y(1, 333);
  x.fill(random, -3, 5);
  weight.fill(random, -1, 1);
  bias.fill(random, -1, 1);
  double sum = 0, squares = 0, differences = 0, powers = 0, largest = -HUGE_VAL;
  for (uint32_t i = 0; i < 333; ++i) {
    double value = x.at(0, i);
    sum += value;
    squares += value * value;
    largest = std::max(largest, value);
  }
  for (uint32_t i = 0; i < 333; ++i) {
    differences += (x.at(0, i) - sum / 333) * (x.at(0, i) - sum / 333);
    powers += std::exp(x.at(0, i) - largest);
  }
  const KernelTable &kernels = referenceKernels();
  kernels.norm(NormKind::kRms, x.data(), x.stride(), 1, 333, 333, weight.data(), nullptr, 1e-6f,
               y.data(), y.stride());
  for (uint32_t i = 0; i < 333; ++i) {
    double exact = x.at(0, i) / std::sqrt(squares / 333 + double(1e-6f)) * weight.at(0, i);
    CHECK(std::fabs(y.at(0, i) - exact) <= kTolerance * std::fabs(exact));
  }
  kernels.norm(NormKind::kLayer, x.data(), x.stride(), 1, 333, 333, weight.data(), bias.data(),
               1e-6f, y.data(), y.stride());
  for (uint32_t i = 0; i < 333; ++i) {
    double normal = (x.at(0, i) - sum / 333) / std::sqrt(differences / 333 + double(1e-6f));
    CHECK(std::fabs(y.at(0, i) - (normal * weight.at(0, i) + bias.at(0, i))) <= 4 * kTolerance);
  }
  kernels.softmax(x.data(), 333, y.data());
  for (uint32_t i = 0; i < 333; ++i) {
    double exact = std::exp(x.at(0, i) - largest) / powers;
    CHECK(std::fabs(y.at(0, i) - exact) <= kTolerance * exact);
  }
  kernels.sigmoid(x.data(), 333, y.data());
  for (uint32_t i = 0; i < 333; ++i) {
    double exact = 1 / (1 + std::exp(-double(x.at(0, i))));
    CHECK(std::fabs(y.at(0, i) - exact) <= kTolerance * exact);
  }
  kernels.siluMultiply(x.data(), weight.data(), 1, 333, x.stride(), y.data());
  for (uint32_t i = 0; i < 333; ++i) {
    double exact = x.at(0, i) / (1 + std::exp(-double(x.at(0, i)))) * weight.at(0, i);
    CHECK(std::fabs(y.at(0, i) - exact) <= kTolerance * std::fabs(exact));
  }
  kernels.geluTanhMultiply(x.data(), weight.data(), 1, 333, x.stride(), y.data());
  for (uint32_t i = 0; i < 333; ++i) {
    // The definition with tanh cancels for negative x, where this has room for it.
    const double value = x.at(0, i),
                 u = std::sqrt(2 / M_PI) * (value + 0.044715 * value * value * value);
    double exact = value / (1 + std::exp(-2 * u)) * weight.at(0, i);
    CHECK(std::fabs(y.at(0, i) - exact) <= kTolerance * std::fabs(exact));
    CHECK(std::fabs(exact - 0.5 * value * (1 + std::tanh(u)) * weight.at(0, i)) <= 1e-14);
  }
}
