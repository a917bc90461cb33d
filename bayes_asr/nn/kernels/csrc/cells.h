// The cells: what a frame does to the state, and the derivatives that the way back needs.
// nn/units has the equations.
//
// kSummed: pre-activations whose sums came with the last product, the first kSummed of `a`.
// Next: a[g] pre-activations; s[i] the old states, turned into the new ones; m dropout mask of the
// candidate.  Returns in `slopes` the derivative by each pre-activation of the state it acts on,
// and in `extras` those by the old state at fixed pre-activations.
//
// For the last gate of a cell with a Reset, V multiplies h times a factor, in a product of its own.
// Reset comes before that product and is given the other gates; it leaves behind the states kInner
// vectors that Next needs, the last of them the factor, to which Next gives back h times itself.

#pragma once

#include "vector.h"

namespace {

struct TanhOf {
  static INLINE Vec Of(Vec a, Vec *slope) {
    const Vec t = Tanh(a);
    *slope = 1.0f - t * t;
    return t;
  }
};

struct SigmoidOf {
  static INLINE Vec Of(Vec a, Vec *slope) {
    const Logistic s(a);
    *slope = s.of * s.of_minus;
    return s.of;
  }
};

struct ReluOf {
  static INLINE Vec Of(Vec a, Vec *slope) {
    *slope = a > 0 ? Vec{} + 1.0f : Vec{};
    return Above0(a);
  }
};

struct SoftplusOf {
  static INLINE Vec Of(Vec a, Vec *slope) {
    const Logistic s(a);
    *slope = s.of;
    return Above0(a) + Log1p(s.exp);
  }
};

struct LogSigmoidOf {
  static INLINE Vec Of(Vec a, Vec *slope) {
    const Logistic s(a);
    *slope = s.of_minus;
    return Below0(a) - Log1p(s.exp);
  }
};

template <class F>
struct Rnn {
  static constexpr int kGates = 1, kSummed = 1, kStates = 1, kInner = 0, kExtras = 0;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, Vec *slopes, Vec *) {
    s[0] = F::Of(a[0], &slopes[0]) * m;
    slopes[0] *= m;
  }
};

// h' = z c + (1 - z) h.
template <class F>
struct Mixing {
  static constexpr int kGates = 2, kSummed = 2, kStates = 1, kInner = 0, kExtras = 1;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, Vec *slopes, Vec *extras) {
    const Logistic z(a[0]);
    const Vec step = F::Of(a[1], &slopes[1]) * m - s[0];
    slopes[0] = z.of * z.of_minus * step;
    slopes[1] *= z.of * m;
    extras[0] = z.of_minus;
    s[0] += z.of * step;
  }
};

// l' = log(z c + (1 - z) e^l) for log c = -softplus(kSign * a); the state is kSign * -l.
template <int kSign>
struct LogMixing {
  static constexpr int kGates = 2, kSummed = 2, kStates = 1, kInner = 0, kExtras = 1;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, Vec *slopes, Vec *extras) {
    constexpr float sign = kSign;
    const Logistic z(a[0]), c(-sign * a[1]);
    const Vec log1p_z = Log1p(z.exp);
    const Vec log_c = -(Above0(sign * a[1]) + Log1p(c.exp)) * m;
    const Vec candidate = Below0(a[0]) - log1p_z + log_c;
    const Vec old = -Above0(a[0]) - log1p_z - sign * s[0];
    const Logistic kept(old - candidate);  // the share of the old state in the new one
    s[0] = -sign * ((old > candidate ? old : candidate) + Log1p(kept.exp));
    slopes[0] = sign * (kept.of - z.of_minus);
    slopes[1] = m * kept.of_minus * c.of_minus;
    extras[0] = kept.of;
  }
};

// The states are h and c; extras: the derivatives of h by the new c and of the new c by the old.
struct Lstm {
  static constexpr int kGates = 4, kSummed = 4, kStates = 2, kInner = 0, kExtras = 2;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, Vec *slopes, Vec *extras) {
    const Logistic i(a[0]), f(a[1]), o(a[3]);
    const Vec g = Tanh(a[2]), c = f.of * s[1] + i.of * (g * m), t = Tanh(c);
    slopes[0] = i.of * i.of_minus * (g * m);
    slopes[1] = f.of * f.of_minus * s[1];
    slopes[2] = i.of * m * (1.0f - g * g);
    slopes[3] = o.of * o.of_minus * t;
    extras[0] = o.of * (1.0f - t * t);
    extras[1] = f.of;
    s[0] = o.of * t;
    s[1] = c;
  }
};

// The vectors behind h are a_z, and r, to which Gru gives back r h.
struct GruReset {
  static constexpr int kGates = 2, kSummed = 2, kStates = 1, kInner = 2, kExtras = 0;
  static INLINE void Next(const Vec *a, Vec *s, Vec, Vec *, Vec *) {
    s[1] = a[0];
    s[2] = Logistic(a[1]).of;
  }
};

// extras: the derivatives of the new h by the old one, and of r h by h.
template <class F>
struct Gru {
  static constexpr int kGates = 3, kSummed = 1, kStates = 1, kInner = 2, kExtras = 2;
  using Reset = GruReset;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, Vec *slopes, Vec *extras) {
    const Vec of_mixing[] = {s[1], a[0]}, h = s[0], r = s[2];
    Vec by[2];
    Mixing<F>::Next(of_mixing, s, m, by, extras);
    slopes[0] = by[0];
    slopes[1] = h * r * (1.0f - r);
    slopes[2] = by[1];
    extras[1] = r;
    s[2] = r * h;
  }
};

// The units: name for Python, cell with the activation F, way back (backward.h).
#define FOR_UNITS(ROW)                            \
  ROW("rnn", Rnn<F>, RnnBack)                     \
  ROW("mixing", Mixing<F>, MixingBack)            \
  ROW("li-bru", LogMixing<-1>, MixingBack)        \
  ROW("log-li-bru", LogMixing<1>, MixingBack)     \
  ROW("lstm", Lstm, LstmBack)                     \
  ROW("gru", Gru<F>, GruBack)

// The activations: name for Python, function.
#define FOR_ACTIVATIONS(ROW)         \
  ROW("tanh", TanhOf)                \
  ROW("sigmoid", SigmoidOf)          \
  ROW("relu", ReluOf)                \
  ROW("softplus", SoftplusOf)        \
  ROW("log-sigmoid", LogSigmoidOf)

// Whether a cell, or its way back, has a Reset.
template <class Cell, class = void>
constexpr bool kResets = false;
template <class Cell>
constexpr bool kResets<Cell, std::void_t<typename Cell::Reset>> = true;

constexpr int kMaxHeld = 3;  // vectors of a sequence that are kept from one product to the next
template <class Cell>
constexpr int kHeld = Cell::kStates + Cell::kInner;

template <class Cell>
constexpr Unit UnitOf(const char *name) {
  constexpr int kTogether = Cell::kGates - kResets<Cell>;  // gates of a product
  static_assert(kTogether == 1 || kTogether == 2 || kTogether == kMaxGates, "a panel has pairs");
  static_assert(Cell::kStates <= kMaxStates && kHeld<Cell> <= kMaxHeld, "");
  return {name, Cell::kGates, Cell::kStates, Cell::kExtras, kResets<Cell>};
}

// The rows of the tables, with an empty one behind the last.
#define ROW(name, Cell, Back) UnitOf<Cell>(name),
template <class F>
constexpr Unit kUnitsWith[] = {FOR_UNITS(ROW){}};
#undef ROW
constexpr const Unit *kUnits = kUnitsWith<TanhOf>;  // sizes are the same with each activation

#define ROW(name, Function) name,
constexpr const char *kActivations[] = {FOR_ACTIVATIONS(ROW) nullptr};
#undef ROW

// The gates whose pre-activations come with the first product of a step.
inline int64_t FirstGates(const Job &job) { return job.G - kUnits[job.unit].resets; }

}  // namespace
