// The cells: what a frame does to the state, and the derivatives that the way back needs.
// nn/units has the equations.
//
// kSummed: pre-activations whose sums came with the last product, the first kSummed of `a`.
// Next: a[g] pre-activations; s[i] the old states, turned into the new ones; m dropout mask of the
// candidate; p[k] coefficients.  Returns in `slopes` the derivative by each pre-activation of the
// state it acts on, and in `extras` those by each coefficient, then those by the old state, all at
// fixed pre-activations.
//
// kCoefficients: trained numbers of each unit, those of the activation among them.
// kRecurs: whether V feeds h back.
//
// For the last gate of a cell with a Reset, V multiplies h times a factor, in a product of its own.
// Reset comes before that product and is given the other gates; it leaves behind the states kInner
// vectors that Next needs, the last of them the factor, to which Next gives back h times itself.

#pragma once

#include "vector.h"

namespace {

// Of: f(a) with its derivative by a, and those by each coefficient p[k] in by[k].
struct TanhOf {
  static constexpr int kCoefficients = 0;
  static INLINE Vec Of(Vec a, const Vec *, Vec *slope, Vec *) {
    const Vec t = Tanh(a);
    *slope = 1.0f - t * t;
    return t;
  }
};

struct SigmoidOf {
  static constexpr int kCoefficients = 0;
  static INLINE Vec Of(Vec a, const Vec *, Vec *slope, Vec *) {
    const Logistic s(a);
    *slope = s.of * s.of_minus;
    return s.of;
  }
};

struct ReluOf {
  static constexpr int kCoefficients = 0;
  static INLINE Vec Of(Vec a, const Vec *, Vec *slope, Vec *) {
    *slope = a > 0 ? Vec{} + 1.0f : Vec{};
    return Above0(a);
  }
};

struct SoftplusOf {
  static constexpr int kCoefficients = 0;
  static INLINE Vec Of(Vec a, const Vec *, Vec *slope, Vec *) {
    const Logistic s(a);
    *slope = s.of;
    return Above0(a) + Log1p(s.exp);
  }
};

struct LogSigmoidOf {
  static constexpr int kCoefficients = 0;
  static INLINE Vec Of(Vec a, const Vec *, Vec *slope, Vec *) {
    const Logistic s(a);
    *slope = s.of_minus;
    return Below0(a) - Log1p(s.exp);
  }
};

// eta sigma(gamma a - theta).
struct PSigmoidOf {
  static constexpr int kCoefficients = 3;
  static INLINE Vec Of(Vec a, const Vec *p, Vec *slope, Vec *by) {
    const Logistic s(p[1] * a - p[2]);
    const Vec inner = p[0] * s.of * s.of_minus;
    *slope = inner * p[1];
    by[0] = s.of;
    by[1] = inner * a;
    by[2] = -inner;
    return p[0] * s.of;
  }
};

// alpha a above 0, beta a below.
struct PReluOf {
  static constexpr int kCoefficients = 2;
  static INLINE Vec Of(Vec a, const Vec *p, Vec *slope, Vec *by) {
    *slope = a > 0 ? p[0] : p[1];
    by[0] = Above0(a);
    by[1] = Below0(a);
    return p[0] * by[0] + p[1] * by[1];
  }
};

// Candidates with dropout: of all derivatives of f, those of what it is multiplied by.
template <class F>
INLINE Vec Candidate(Vec a, Vec factor, const Vec *p, Vec *slope, Vec *by) {
  const Vec f = F::Of(a, p, slope, by);
  *slope *= factor;
  for (int k = 0; k < F::kCoefficients; ++k) by[k] *= factor;
  return f;
}

template <class F>
struct Rnn {
  static constexpr int kGates = 1, kSummed = 1, kStates = 1, kInner = 0, kExtras = 0;
  static constexpr int kCoefficients = F::kCoefficients;
  static constexpr bool kRecurs = true;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, const Vec *p, Vec *slopes, Vec *extras) {
    s[0] = Candidate<F>(a[0], m, p, &slopes[0], extras) * m;
  }
};

// h' = z c + (1 - z) h.
template <class F>
struct Mixing {
  static constexpr int kGates = 2, kSummed = 2, kStates = 1, kInner = 0, kExtras = 1;
  static constexpr int kCoefficients = F::kCoefficients;
  static constexpr bool kRecurs = true;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, const Vec *p, Vec *slopes, Vec *extras) {
    const Logistic z(a[0]);
    const Vec step = Candidate<F>(a[1], z.of * m, p, &slopes[1], extras) * m - s[0];
    slopes[0] = z.of * z.of_minus * step;
    extras[kCoefficients] = z.of_minus;
    s[0] += z.of * step;
  }
};

// l' = log(z c + (1 - z) e^l) for log c = kOutside * softplus(kInside * a); the state is kState * l.
template <int kState, int kOutside, int kInside>
struct LogMixing {
  static constexpr int kGates = 2, kSummed = 2, kStates = 1, kInner = 0, kExtras = 1;
  static constexpr int kCoefficients = 0;
  static constexpr bool kRecurs = true;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, const Vec *, Vec *slopes, Vec *extras) {
    constexpr float state = kState, outside = kOutside, inside = kInside;
    const Logistic z(a[0]), c(-inside * a[1]);
    const Vec log1p_z = Log1p(z.exp);
    const Vec log_c = outside * (Above0(inside * a[1]) + Log1p(c.exp)) * m;
    const Vec candidate = Below0(a[0]) - log1p_z + log_c;
    const Vec old = -Above0(a[0]) - log1p_z + state * s[0];
    const Logistic kept(old - candidate);  // the share of the old state in the new one
    s[0] = state * ((old > candidate ? old : candidate) + Log1p(kept.exp));
    slopes[0] = state * (z.of_minus - kept.of);
    slopes[1] = state * outside * inside * m * kept.of_minus * c.of_minus;
    extras[0] = kept.of;
  }
};

using LiBru = LogMixing<1, -1, -1>;
using LogLiBru = LogMixing<-1, -1, 1>;
using HarmonicLiBru = LogMixing<1, 1, 1>;  // of 1 / p, whose logarithm the state is

// The states are h and c; extras: the derivatives of h by the new c and of the new c by the old.
// The coefficients are the peepholes of i, f and o: the first two act on c, the last one on h.
template <bool kPeeps>
struct Lstm {
  static constexpr int kGates = 4, kSummed = 4, kStates = 2, kInner = 0, kExtras = 2;
  static constexpr int kCoefficients = kPeeps ? 3 : 0;
  static constexpr bool kRecurs = true;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, const Vec *p, Vec *slopes, Vec *extras) {
    const Logistic i(kPeeps ? a[0] + p[0] * s[1] : a[0]), f(kPeeps ? a[1] + p[1] * s[1] : a[1]);
    const Vec g = Tanh(a[2]), c = f.of * s[1] + i.of * (g * m), t = Tanh(c);
    const Logistic o(kPeeps ? a[3] + p[2] * c : a[3]);
    slopes[0] = i.of * i.of_minus * (g * m);
    slopes[1] = f.of * f.of_minus * s[1];
    slopes[2] = i.of * m * (1.0f - g * g);
    slopes[3] = o.of * o.of_minus * t;
    Vec *own = extras + kCoefficients;
    own[0] = o.of * (1.0f - t * t);
    own[1] = f.of;
    if constexpr (kPeeps) {
      own[0] += p[2] * slopes[3];
      own[1] += p[0] * slopes[0] + p[1] * slopes[1];
      extras[0] = slopes[0] * s[1];
      extras[1] = slopes[1] * s[1];
      extras[2] = slopes[3] * c;
    }
    s[0] = o.of * t;
    s[1] = c;
  }
};

// The last of some gates resets.  The vectors behind h are a of the first one, and r, to which a
// cell gives back r h.
template <int kAllGates>
struct GateReset {
  static constexpr int kGates = kAllGates, kSummed = kAllGates, kStates = 1, kInner = 2;
  static constexpr int kExtras = 0, kCoefficients = 0;
  static constexpr bool kRecurs = true;
  static INLINE void Next(const Vec *a, Vec *s, Vec, const Vec *, Vec *, Vec *) {
    s[1] = a[0];
    s[2] = Logistic(a[kGates - 1]).of;
  }
};

// extras: the derivatives of the new h by the old one, and of r h by h.
template <class F>
struct Gru {
  static constexpr int kGates = 3, kSummed = 1, kStates = 1, kInner = 2, kExtras = 2;
  static constexpr int kCoefficients = F::kCoefficients;
  static constexpr bool kRecurs = true;
  using Reset = GateReset<2>;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, const Vec *p, Vec *slopes, Vec *extras) {
    const Vec of_mixing[] = {s[1], a[0]}, h = s[0], r = s[2];
    Vec by[2];
    Mixing<F>::Next(of_mixing, s, m, p, by, extras);
    slopes[0] = by[0];
    slopes[1] = h * r * (1.0f - r);
    slopes[2] = by[1];
    extras[kCoefficients + 1] = r;
    s[2] = r * h;
  }
};

// A gate that resets by r = sigma(a), and mixes by sigma(kSign * a).  extras: the derivatives of the
// new h by the old one, and of r h by h and by a.
template <class F, int kSign>
struct OneGate {
  static constexpr int kGates = 2, kSummed = 1, kStates = 1, kInner = 2, kExtras = 3;
  static constexpr int kCoefficients = F::kCoefficients;
  static constexpr bool kRecurs = true;
  using Reset = GateReset<1>;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, const Vec *p, Vec *slopes, Vec *extras) {
    constexpr float sign = kSign;
    const Vec of_mixing[] = {sign * s[1], a[0]}, h = s[0], r = s[2];
    Mixing<F>::Next(of_mixing, s, m, p, slopes, extras);
    slopes[0] *= sign;
    extras[kCoefficients + 1] = r;
    extras[kCoefficients + 2] = h * r * (1.0f - r);
    s[2] = r * h;
  }
};
template <class F>
using Mgu = OneGate<F, 1>;
template <class F>
using MinimalGru = OneGate<F, -1>;

// The log-odds of a Markov chain of two states after a frame by those before it,
// p[2] + softplus(l + p[0]) - softplus(l + p[1]), and their derivatives by each p and by l.
INLINE Vec ChainStep(Vec l, const Vec *p, Vec *extras) {
  Vec by;
  const Vec present = SoftplusOf::Of(l + p[0], nullptr, &extras[0], nullptr);
  const Vec absent = SoftplusOf::Of(l + p[1], nullptr, &by, nullptr);
  extras[1] = -by;
  extras[2] = Vec{} + 1.0f;
  extras[3] = extras[0] - by;
  return p[2] + present - absent;
}

struct Chain {
  static constexpr int kGates = 1, kSummed = 1, kStates = 1, kInner = 0, kExtras = 1;
  static constexpr int kCoefficients = 3;
  static constexpr bool kRecurs = false;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, const Vec *p, Vec *slopes, Vec *extras) {
    s[0] = a[0] * m + ChainStep(s[0], p, extras);
    slopes[0] = m;
  }
};

// What later frames tell: the states are that, and with it the evidence of the frame.
struct ChainLater {
  static constexpr int kGates = 1, kSummed = 1, kStates = 2, kInner = 0, kExtras = 1;
  static constexpr int kCoefficients = 3;
  static constexpr bool kRecurs = false;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, const Vec *p, Vec *slopes, Vec *extras) {
    s[0] = ChainStep(s[1], p, extras);
    s[1] = a[0] * m + s[0];
    slopes[0] = m;
  }
};

constexpr float kFirstLogit = 2.0f;

// Chain whose two probabilities are gates, which come as logits before the evidence.
struct GatedChain {
  static constexpr int kGates = 3, kSummed = 3, kStates = 1, kInner = 0, kExtras = 1;
  static constexpr int kCoefficients = 0;
  static constexpr bool kRecurs = false;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, const Vec *, Vec *slopes, Vec *extras) {
    const Vec stay = a[0] + kFirstLogit, enter = a[1] - kFirstLogit;
    const Logistic p1(stay), p2(enter);
    const Vec tails = Log1p(p2.exp) - Log1p(p1.exp);
    const Vec p[] = {Below0(stay) - Below0(enter) + tails, Above0(enter) - Above0(stay) + tails,
                     enter};
    Vec by[4];
    s[0] = a[2] * m + ChainStep(s[0], p, by);
    slopes[0] = by[0] * p1.of_minus - by[1] * p1.of;
    slopes[1] = (1.0f - by[0]) * p2.of_minus + (1.0f + by[1]) * p2.of;
    slopes[2] = m;
    extras[0] = by[3];
  }
};

// The states are what later frames tell, and with it the frame, the one before.
struct GatedChainLater {
  static constexpr int kGates = 3, kSummed = 3, kStates = 2, kInner = 0, kExtras = 1;
  static constexpr int kCoefficients = 0;
  static constexpr bool kRecurs = false;
  static INLINE void Next(const Vec *a, Vec *s, Vec m, const Vec *, Vec *slopes, Vec *extras) {
    const Vec stay = a[0] + kFirstLogit, enter = a[1] - kFirstLogit;
    const Logistic p1(stay), p2(enter);
    const Vec tails = Log1p(p2.exp) - Log1p(p1.exp);
    const Vec p[] = {stay, enter, Above0(enter) - Above0(stay) + tails};
    Vec by[4];
    s[0] = s[1];
    s[1] = ChainStep(a[2] * m + s[0], p, by);
    slopes[0] = by[0] - p1.of;
    slopes[1] = p2.of + by[1];
    slopes[2] = by[3] * m;
    extras[0] = by[3];
  }
};

// The units: name for Python, cell with the activation F, way back (backward.h).
#define FOR_UNITS(ROW)                                 \
  ROW("rnn", Rnn<F>, RnnBack)                          \
  ROW("mixing", Mixing<F>, MixingBack<2>)              \
  ROW("li-bru", LiBru, MixingBack<2>)                  \
  ROW("log-li-bru", LogLiBru, MixingBack<2>)           \
  ROW("harmonic-li-bru", HarmonicLiBru, MixingBack<2>) \
  ROW("lstm", Lstm<false>, LstmBack<false>)            \
  ROW("lstm-peepholes", Lstm<true>, LstmBack<true>)    \
  ROW("gru", Gru<F>, GruBack)                          \
  ROW("mgu", Mgu<F>, OneGateBack)                      \
  ROW("minimal-gru", MinimalGru<F>, OneGateBack)       \
  ROW("ubru", Chain, MixingBack<1>)                    \
  ROW("ubru-later", ChainLater, LaterBack)             \
  ROW("ubru-gates", GatedChain, MixingBack<3>)         \
  ROW("ubru-gates-later", GatedChainLater, GatedLaterBack)

// The activations: name for Python, function.
#define FOR_ACTIVATIONS(ROW)         \
  ROW("tanh", TanhOf)                \
  ROW("sigmoid", SigmoidOf)          \
  ROW("relu", ReluOf)                \
  ROW("softplus", SoftplusOf)        \
  ROW("log-sigmoid", LogSigmoidOf)   \
  ROW("p-sigmoid", PSigmoidOf)       \
  ROW("p-relu", PReluOf)

// Whether a cell, or its way back, has a Reset.
template <class Cell, class = void>
constexpr bool kResets = false;
template <class Cell>
constexpr bool kResets<Cell, std::void_t<typename Cell::Reset>> = true;

constexpr int kMaxHeld = 3;  // vectors of a sequence that are kept from one product to the next
template <class Cell>
constexpr int kHeld = Cell::kStates + Cell::kInner;

template <class Cell>
constexpr UnitRow UnitOf(const char *name) {
  constexpr int kTogether = Cell::kGates - kResets<Cell>;  // gates of a product
  static_assert(kTogether <= kMaxGates, "a panel has a vector for each gate");
  static_assert(Cell::kStates <= kMaxStates && kHeld<Cell> <= kMaxHeld, "");
  return {name,          Cell::kGates,         Cell::kStates,
          Cell::kExtras, Cell::kCoefficients, kResets<Cell>, Cell::kRecurs};
}

// The rows of the tables, with an empty one behind the last.
#define ROW(name, Cell, Back) UnitOf<Cell>(name),
template <class F>
constexpr UnitRow kUnitsWith[] = {FOR_UNITS(ROW){}};
#undef ROW
// Other activations have coefficients, other sizes are the same with each.
constexpr const UnitRow *kUnits = kUnitsWith<TanhOf>;

#define ROW(name, Function) {name, Function::kCoefficients},
constexpr ActivationRow kActivations[] = {FOR_ACTIVATIONS(ROW){}};
#undef ROW

// The gates whose pre-activations come with the first product of a step.
inline int64_t FirstGates(const Job &job) { return job.G - kUnits[job.unit].resets; }

}  // namespace
