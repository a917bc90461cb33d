// Vectors of LANES floats and the functions of them that cells need.
//
// exp: Cody and Waite's reduction to |r| <= ln(2)/2 and the polynomial of Moshier's Cephes (expf);
// tanh near 0: that of tanhf there.  log1p on [0, 1]: u + u^2 Q(u), Q of a minimax fit.  Each is
// within a few units of the last place, and NaN goes through all of them.  Terms of polynomials are
// summed in pairs, so that none waits for all others.

#pragma once

#include "common.h"

namespace {

using Vec = float __attribute__((vector_size(LANES * 4)));
using Int = int32_t __attribute__((vector_size(LANES * 4)));
using Word = uint32_t __attribute__((vector_size(LANES * 4)));
using Half = uint16_t __attribute__((vector_size(LANES * 2)));

template <class To, class From>
INLINE To Bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "");
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}

// Loads and stores of the first `count` lanes, which are all but at the end of a row.
template <class V, class T>
__attribute__((noinline)) V LoadEnd(const T *p, int64_t count) {
  T lanes[LANES] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  V v;
  __builtin_memcpy(&v, lanes, sizeof v);
  return v;
}

template <class V, class T>
__attribute__((noinline)) void StoreEnd(T *p, V v, int64_t count) {
  T lanes[LANES];
  __builtin_memcpy(lanes, &v, sizeof v);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

template <class V, class T>
INLINE V LoadSome(const T *p, int64_t count) {
  if (count < LANES) return LoadEnd<V>(p, count);
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class V, class T>
INLINE void StoreSome(T *p, V v, int64_t count) {
  if (count < LANES) return StoreEnd(p, v, count);
  __builtin_memcpy(p, &v, sizeof v);
}

INLINE Vec Abs(Vec x) { return Bits<Vec>(Bits<Int>(x) & 0x7fffffff); }
INLINE Vec Above0(Vec x) { return x < 0 ? Vec{} : x; }  // max(x, 0)
INLINE Vec Below0(Vec x) { return x > 0 ? Vec{} : x; }  // min(x, 0)

// e^x for x <= 0; below -87.3, where floats lose digits, it stays at e^-87.3.
INLINE Vec Exp(Vec x) {
  x = x < -87.33f ? Vec{} - 87.33f : x;
  // 1.5 * 2^23 + 127: the last bits of a sum with it count ones, beginning at the exponent of 1.
  const Vec rounder = Vec{} + 12583039.0f;
  const Vec shifted = x * 1.44269504f + rounder;
  const Vec n = shifted - rounder;
  const Vec r = (x - n * 0.693359375f) - n * -2.12194440e-4f, r2 = r * r;
  const Vec p5 = r * 1.9875691500e-4f + 1.3981999507e-3f;
  const Vec p3 = r * 8.3334519073e-3f + 4.1665795894e-2f;
  const Vec p1 = r * 1.6666665459e-1f + 5.0000001201e-1f;
  const Vec p = ((p5 * r2 + p3) * r2 + p1) * r2 + (r + 1.0f);
  return p * Bits<Vec>(Bits<Word>(shifted) << 23);
}

// log(1 + u) for 0 <= u <= 1.
INLINE Vec Log1p(Vec u) {
  const Vec u2 = u * u;
  const Vec q7 = u * 0.0053645852f - 0.030064838f, q5 = u * 0.0792029873f - 0.137536719f;
  const Vec q3 = u * 0.191535935f - 0.248571485f, q1 = u * 0.33321321f - 0.499996483f;
  return ((q7 * u2 + q5) * (u2 * u2) + (q3 * u2 + q1)) * u2 + u;
}

// sigma(x) and sigma(-x), the logarithms of which are min(x, 0) - log1p and -max(x, 0) - log1p.
struct Logistic {
  Vec of, of_minus, exp;

  INLINE explicit Logistic(Vec x) : exp(Exp(-Abs(x))) {
    const Vec larger = 1.0f / (1.0f + exp), smaller = exp * larger;
    of = x < 0 ? smaller : larger;
    of_minus = x < 0 ? larger : smaller;
  }
};

INLINE Vec Tanh(Vec x) {
  const Vec e = Exp(-2.0f * Abs(x)), far = (1.0f - e) / (1.0f + e), z = x * x;
  Vec p = z * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const Vec near = p * z * x + x;
  return Abs(x) < 0.625f ? near : (x < 0 ? -far : far);
}

// a * b + sum, rounded once where there is an instruction for it.  A compiler that is left to choose
// may choose anew for each number of rows, and a row would have other bits beside other rows.
INLINE Vec MultiplyAdd(float a, Vec b, Vec sum) {
#if defined __x86_64__ && LANES == 16
  return _mm512_fmadd_ps(_mm512_set1_ps(a), b, sum);
#elif defined __x86_64__ && LANES == 8
  return _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum);
#else
  return a * b + sum;
#endif
}

// Lanes of two vectors in turn, beginning with lane `first` of each.
template <int first, int... lane>
INLINE Word Interleaved(Word a, Word b, std::integer_sequence<int, lane...>) {
  return Word{(lane % 2 ? b : a)[first + lane / 2]...};
}

// Lane i of vector j becomes lane j of vector i.
INLINE void Transpose(Word *square) {
  constexpr int kHalf = LANES / 2;
  constexpr std::make_integer_sequence<int, LANES> kLanes{};
#pragma GCC unroll 4
  for (int done = 1; done < LANES; done *= 2) {
    Word next[LANES];
#pragma GCC unroll 8
    for (int i = 0; i < kHalf; ++i) {
      next[2 * i] = Interleaved<0>(square[i], square[i + kHalf], kLanes);
      next[2 * i + 1] = Interleaved<kHalf>(square[i], square[i + kHalf], kLanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) square[i] = next[i];
  }
}

// Numbers that fill the words of which products are made: one float or two bfloat16.
struct Float32 {
  using Number = float;
  using Numbers = Vec;
  static constexpr int kPerWord = 1;
  static INLINE Word Joined(const Vec *rows) { return Bits<Word>(rows[0]); }
  static INLINE Word Consecutive(const float *p) { return Bits<Word>(Load(p, LANES)); }
  static INLINE Vec Load(const float *p, int64_t count) { return LoadSome<Vec>(p, count); }
  static INLINE void Store(float *p, Vec x, int64_t count) { StoreSome(p, x, count); }
  static INLINE Vec AddProduct(uint32_t a, Word b, Vec sum) {
    return MultiplyAdd(Bits<float>(a), Bits<Vec>(b), sum);
  }
};

struct Bfloat16 {
  using Number = uint16_t;
  using Numbers = Half;
  static constexpr int kPerWord = 2;
  static INLINE Word Joined(const Half *rows) { return Wide(rows[0]) | Wide(rows[1]) << 16; }
  static INLINE Word Joined(const Vec *rows) {
    const Half halves[] = {Rounded(rows[0]), Rounded(rows[1])};
    return Joined(halves);
  }
  static INLINE Word Consecutive(const float *p) {
    const Half halves[] = {Rounded(LoadSome<Vec>(p, LANES)),
                           Rounded(LoadSome<Vec>(p + LANES, LANES))};
    Word words;
    __builtin_memcpy(&words, halves, sizeof words);
    return words;
  }
  static INLINE Vec Load(const uint16_t *p, int64_t count) {
    return Bits<Vec>(Wide(LoadSome<Half>(p, count)) << 16);
  }
  static INLINE void Store(uint16_t *p, Vec x, int64_t count) {
    StoreSome(p, Rounded(x), count);
  }
  static INLINE Vec AddProduct(uint32_t a, Word b, Vec sum) {
#ifdef BF16_PRODUCTS
    return _mm512_dpbf16_ps(sum, Bits<__m512bh>(Word{} + a), Bits<__m512bh>(b));
#else
    sum = MultiplyAdd(Bits<float>(a << 16), Bits<Vec>(b << 16), sum);
    return MultiplyAdd(Bits<float>(a & 0xffff0000u), Bits<Vec>(b & 0xffff0000u), sum);
#endif
  }

 private:
  static INLINE Word Wide(Half numbers) {
#ifdef BF16_PRODUCTS
    return Bits<Word>(_mm512_cvtepu16_epi32(Bits<__m256i>(numbers)));
#else
    return __builtin_convertvector(numbers, Word);
#endif
  }
  static INLINE Half Rounded(Vec x) {
#ifdef BF16_PRODUCTS
    return Bits<Half>(_mm512_cvtneps_pbh(x));
#else
    const Word bits = Bits<Word>(x), nearest = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return __builtin_convertvector(x == x ? nearest : Word{} + 0x7fc0, Half);
#endif
  }
};

}  // namespace
