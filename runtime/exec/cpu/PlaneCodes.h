// Joins the codes of a matrix in bit planes, one byte per code. The planes of a unit are combined
// before they are split into inputs, so that two shifts serve two or four of them. Included after
// the byte operations of Dot256.h, Dot512.h or UnitsNeon.h: shiftLeft, shiftRight, keep, choose and
// lookUp.
#pragma once

namespace moert {
namespace {

/// The bits of each plane that is read, highest first. kHasLevels: a code selects a level
/// (runtime/format/CodeLevels.h), which is then multiplied like a code of 6 bits.
template <int kFirst, int kSecond = 0, int kThird = 0, bool kHasLevels = false> struct Planes {
  static constexpr int kBitsOf[3] = {kFirst, kSecond, kThird};
  static constexpr int kCount = 1 + (kSecond > 0) + (kThird > 0);
  static constexpr int kBits = kFirst + kSecond + kThird;
  static constexpr bool kLooksUp = kHasLevels;
  /// Bits of the unsigned bytes that are multiplied; half their range is the zero.
  static constexpr int kProductBits = kHasLevels ? 6 : kBits;
  static constexpr int kFewest = kSecond == 1 || kThird == 1 ? 1 : kFirst;
  /// Inputs whose codes are joined at a time: those of a unit of the narrowest plane.
  static constexpr int kInputs = 32 / kFewest;
  static constexpr int kParts = kInputs / 4;

  template <int kA, int kB = 0, int kC = 0> static constexpr bool is() {
    return kFirst == kA && kSecond == kB && kThird == kC;
  }
};

/// Joins two 2-bit planes to two units of int4: of inputs i and i + 8, and i + 4 and i + 12.
struct Nibbles {
  Bytes even, odd;
};
inline Nibbles joinPairs(Bytes high, Bytes low) {
  return {choose<0xcc>(shiftLeft<2>(high), low), choose<0xcc>(high, shiftRight<2>(low))};
}

/// A group's codes in each plane, and the levels if P has some: for one plane of 2 bits,
/// PairLevels, otherwise CodeLevels.
template <typename P> struct GroupCodes {
  const std::byte *planes[P::kCount];
  const uint8_t *levels;
};

/// The codes of P::kInputs inputs, one byte per code: parts[p] has those of inputs i + 4 * p.
/// take(plane) returns the plane's units, ascending.
template <typename P, typename Take> inline void joinPlanes(Take &&take, Bytes *parts) {
  if constexpr (P::template is<8>()) {
    parts[0] = take(0);
  } else if constexpr (P::template is<4>()) {
    Bytes unit = take(0);
    parts[0] = keep<0x0f>(unit);
    parts[1] = keep<0x0f>(shiftRight<4>(unit));
  } else if constexpr (P::template is<2>()) {
    Bytes unit = take(0);
    parts[0] = keep<0x03>(unit);
    parts[1] = keep<0x03>(shiftRight<2>(unit));
    parts[2] = keep<0x03>(shiftRight<4>(unit));
    parts[3] = keep<0x03>(shiftRight<6>(unit));
  } else if constexpr (P::template is<2, 1>()) {
    // After one shift, WeightKind::kInt1's bit order puts an input's bit next to its other two.
    Bytes first = take(0), second = take(0), low = take(1);
    Bytes joined[4] = {choose<0x66>(shiftLeft<1>(first), low),
                       choose<0x66>(shiftRight<1>(first), shiftRight<1>(low)),
                       choose<0x66>(shiftLeft<1>(second), shiftRight<2>(low)),
                       choose<0x66>(shiftRight<1>(second), shiftRight<3>(low))};
    for (int half = 0; half < 2; ++half) {
      parts[4 * half] = keep<0x07>(joined[2 * half]);
      parts[4 * half + 1] = keep<0x07>(joined[2 * half + 1]);
      parts[4 * half + 2] = keep<0x07>(shiftRight<4>(joined[2 * half]));
      parts[4 * half + 3] = keep<0x07>(shiftRight<4>(joined[2 * half + 1]));
    }
  } else if constexpr (P::template is<2, 2, 1>()) {
    Bytes high[2] = {take(0), take(0)}, middle[2] = {take(1), take(1)}, low = take(2);
    for (int half = 0; half < 2; ++half) {
      Nibbles pairs = joinPairs(high[half], middle[half]);
      Bytes *out = parts + 4 * half;
      out[0] = keep<0x1f>(choose<0x1e>(shiftLeft<1>(pairs.even), low));
      out[1] = keep<0x1f>(choose<0x1e>(shiftLeft<1>(pairs.odd), shiftRight<1>(low)));
      out[2] = keep<0x1f>(choose<0x1e>(shiftRight<3>(pairs.even), shiftRight<4>(low)));
      out[3] = keep<0x1f>(choose<0x1e>(shiftRight<3>(pairs.odd), shiftRight<5>(low)));
      low = shiftRight<2>(low); // The second half's bits follow two places further up.
    }
  } else {
    static_assert(P::template is<2, 2>() || P::template is<2, 2, 2>() || P::template is<2, 2, 4>());
    Bytes high = take(0), middle = take(1);
    Nibbles pairs = joinPairs(high, middle);
    if constexpr (P::template is<2, 2>()) {
      parts[0] = keep<0x0f>(pairs.even);
      parts[1] = keep<0x0f>(pairs.odd);
      parts[2] = keep<0x0f>(shiftRight<4>(pairs.even));
      parts[3] = keep<0x0f>(shiftRight<4>(pairs.odd));
    } else if constexpr (P::template is<2, 2, 2>()) {
      Bytes low = take(2);
      parts[0] = keep<0x3f>(choose<0x3c>(shiftLeft<2>(pairs.even), low));
      parts[1] = keep<0x3f>(choose<0x3c>(shiftLeft<2>(pairs.odd), shiftRight<2>(low)));
      parts[2] = keep<0x3f>(choose<0x3c>(shiftRight<2>(pairs.even), shiftRight<4>(low)));
      parts[3] = keep<0x3f>(choose<0x3c>(shiftRight<2>(pairs.odd), shiftRight<6>(low)));
    } else {
      Bytes first = take(2), second = take(2);
      parts[0] = choose<0xf0>(shiftLeft<4>(pairs.even), first);
      parts[1] = choose<0xf0>(shiftLeft<4>(pairs.odd), shiftRight<4>(first));
      parts[2] = choose<0xf0>(pairs.even, second);
      parts[3] = choose<0xf0>(pairs.odd, shiftRight<4>(second));
    }
  }
}

/// The bytes to multiply: the codes, or their levels.
template <typename P, typename Take>
inline void joinCodes(Take &&take, const GroupCodes<P> &codes, Bytes *parts) {
  if constexpr (P::kLooksUp && P::template is<2>()) {
    // One mask for two codes, since each of them has its table: 7 operations a unit instead of 11.
    Bytes unit = take(0);
    Bytes low = keep<0x0f>(unit), high = keep<0x0f>(shiftRight<4>(unit));
    parts[0] = lookUp(codes.levels, low);
    parts[1] = lookUp(codes.levels + 16, low);
    parts[2] = lookUp(codes.levels, high);
    parts[3] = lookUp(codes.levels + 16, high);
    return;
  }
  joinPlanes<P>(take, parts);
  if constexpr (P::kLooksUp)
    for (int p = 0; p < P::kParts; ++p)
      parts[p] = lookUp(codes.levels, parts[p]);
}

/// Converts a sum of codes to steps of the matrix's grid: sum << shift, plus `center` for each
/// activation. With missing bits these are half steps, and the center is the middle of the missing
/// bits minus the zero.
struct GridSteps {
  int shift;
  int32_t center;
  float step; // In units of the scale.
};
template <typename P> inline GridSteps gridSteps(uint32_t missing) {
  if (missing == 0)
    return {0, -(1 << (P::kBits - 1)), 1.0f};
  return {static_cast<int>(missing) + 1, (1 << missing) - 1 - (1 << (P::kBits + missing)), 0.5f};
}

} // namespace
} // namespace moert
