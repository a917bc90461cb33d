// The exponential and the logarithm to the same bits on every processor, the twin of base/elementary.py.
//
// They are made of additions, multiplications and divisions in one order, for double or for vectors
// of doubles.  A multiplication and an addition that a compiler joins are rounded once instead of
// twice: setup.py forbids it by -ffp-contract=off.

#pragma once

#include <cstdint>

#ifdef __FAST_MATH__
#error "-ffast-math changes results: compile without it"
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // functions of vectors are inlined
#endif

namespace elementary {

template <class To, class From>
inline __attribute__((always_inline)) To Bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "");
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}

// Integers as wide as what a function is computed of.
template <class V>
struct Wide {
  using Int = decltype(V{} < V{});
};
template <>
struct Wide<double> {
  using Int = int64_t;
};

// x + 2^52 y modulo 2^64; of one integer a shift beyond its range would be undefined.
template <class Int>
inline __attribute__((always_inline)) Int AddShifted(Int x, Int y) {
  return static_cast<Int>(x + (y << 52));
}
template <>
inline __attribute__((always_inline)) int64_t AddShifted(int64_t x, int64_t y) {
  return static_cast<int64_t>(static_cast<uint64_t>(x) + (static_cast<uint64_t>(y) << 52));
}

// Horner's scheme; the first coefficient is that of 1.
template <class V, int N>
inline __attribute__((always_inline)) V Polynomial(const double (&coefficients)[N], V x) {
  V total = V{} + coefficients[N - 1];
  for (int k = N - 2; k >= 0; --k) total = total * x + coefficients[k];
  return total;
}

constexpr double kRounder = 6755399441055744.0;  // 1.5 * 2^52
constexpr double kLn2High = 0x1.62e42fefa0000p-1, kLn2Low = 0x1.cf79abc9e3b3ap-40;

// e^x; 0 below -708, infinite above 709.
template <class V>
inline __attribute__((always_inline)) V Exp(V x) {
  using Int = typename Wide<V>::Int;
  constexpr double kEven[] = {1.0 / 2,     1.0 / 24,      1.0 / 720,
                              1.0 / 40320, 1.0 / 3628800, 1.0 / 479001600};
  constexpr double kOdd[] = {1.0,          1.0 / 6,        1.0 / 120,       1.0 / 5040,
                             1.0 / 362880, 1.0 / 39916800, 1.0 / 6227020800};
  const V shifted = x * 0x1.71547652b82fep+0 + kRounder;
  const V n = shifted - kRounder;
  const V r = (x - n * kLn2High) - n * kLn2Low;
  const V squared = r * r;
  const V p = 1.0 + (r * Polynomial(kOdd, squared) + squared * Polynomial(kEven, squared));
  const V scaled = Bits<V>(AddShifted(Bits<Int>(p), Bits<Int>(shifted)));
  const V bounded = x > V{} + 709.0 ? V{} + __builtin_inf() : scaled;
  return x < V{} - 708.0 ? V{} : bounded;
}

// The natural logarithm of a positive, normal x, and of infinity; NaN of NaN.
template <class V>
inline __attribute__((always_inline)) V Log(V x) {
  using Int = typename Wide<V>::Int;
  constexpr double kAtanh[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                               2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
  constexpr double kRootHalf = 0x1.6a09e667f3bcdp-1;
  // The whole number e with x = 2^e m and m from root 1/2 to root 2, by the bits of both.
  const Int above = Bits<Int>(x) - Bits<Int>(V{} + kRootHalf);
  const Int exponent = above >> 52;
  const V m = Bits<V>(AddShifted(Bits<Int>(x), static_cast<Int>(-exponent)));
  const V e = Bits<V>(static_cast<Int>(exponent + Bits<Int>(V{} + kRounder))) - kRounder;
  const V s = (m - 1.0) / (m + 1.0);
  const V squared = s * s;
  const V tail = s * (squared * Polynomial(kAtanh, squared));
  const V found = e * kLn2High + (2.0 * s + (tail + e * kLn2Low));
  return x < V{} + __builtin_inf() ? found : x;
}

}  // namespace elementary
