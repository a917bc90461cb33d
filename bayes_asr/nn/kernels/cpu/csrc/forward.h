// The way forwards through time.

#pragma once

#include "sweep.h"

namespace {

template <class Store>
struct ForwardPlace {
  using Number = typename Store::Number;
  const Number *terms;
  const float *mask;         // or null
  const float *coefficients;
  float *states;             // [kMaxHeld, width]
  Number *h;
  Number *fed, *inner;  // to the product of the next step, and to that of the last gate
  Number *slopes, *extras, *restored;  // or null
  Number *before;                      // of the next frame, or null
};

template <class Store>
class Forward : public Sweep<Store, ForwardPlace<Store>, Forward<Store>> {
  using Place = ForwardPlace<Store>;
  using Base = Sweep<Store, Place, Forward>;
  using typename Base::Finishes, typename Base::Member, typename Base::Number;
  using Base::fed_, Base::first_, Base::inner_, Base::job_, Base::last_, Base::width_;
  using Base::ExtrasAt, Base::Get, Base::Put, Base::SlopesAt, Base::Some;
  using Base::PlacesOf, Base::PrefetchRows, Base::Step;

 public:
  explicit Forward(const Job &job)
      : Base(job, WeightsOf(job, 0, FirstGates(job)), WeightsOf(job, job.G - 1, 1)),
        states_(job.B * job.D * kMaxHeld * width_),
        finishes_(FinishesOf(job)) {
    for (int64_t row = 0; row < job.B * job.D; ++row) {
      const int64_t b = row / job.D, d = row % job.D;
      Number *before = job.before ? BeforeAt(job.before, FrameOf(job, 0, b, d), d) : nullptr;
      for (int64_t unit = 0; unit < job.H; unit += LANES) {
        for (int i = 0; i < kMaxStates && job.initial[i]; ++i) {
          const Vec initial = Some(job.initial[i] + row * job.H, unit);
          StoreSome(StatesAt(row) + i * width_ + unit, initial, LANES);
        }
        const Vec h = LoadSome<Vec>(StatesAt(row) + unit, LANES);
        if (job.V) Put(fed_[0].at(row), 0, unit, h);
        if (before) Put(before, 0, unit, h);
      }
    }
  }

  void Go(Member &member) {
    for (int64_t t = 0; t < job_.T; ++t) {
      const int64_t alive = job_.sizes[t];
      const Place *places = PlacesOf(t, member);
      Step(t, places, alive, fed_[t % 2], first_, finishes_.first, member);
      if (last_) Step(t, places, alive, inner_, *last_, finishes_.last, member);
    }
  }

  Place PlaceOf(int64_t t, int64_t b, int64_t d, int64_t row) const {
    const int64_t frame = FrameOf(job_, t, b, d);
    Place place{};
    place.terms = static_cast<const Number *>(job_.terms) + frame * job_.terms_frame +
                  d * job_.terms_direction;
    place.mask = job_.mask ? job_.mask + row * job_.H : nullptr;
    place.coefficients = job_.coefficients + d % job_.sets * job_.P * job_.H;
    place.states = StatesAt(row);
    place.h = static_cast<Number *>(job_.h) + (frame * job_.D + d) * job_.H;
    place.fed = fed_[(t + 1) % 2].at(row);
    if (last_) place.inner = inner_.at(row);
    if (job_.slopes) {
      place.slopes = SlopesAt(frame, d);
      place.extras = ExtrasAt(frame, d);
      if (last_) place.restored = BeforeAt(job_.restored, frame, d);
      if (job_.before && t + 1 < job_.lengths[b]) {
        place.before = BeforeAt(job_.before, FrameOf(job_, t + 1, b, d), d);
      }
    }
    return place;
  }

  INLINE void Prefetch(const Place &place, int64_t unit, int64_t units) const {
    PrefetchRows(place.terms, job_.G, unit, units);
    PrefetchRows(place.h, 1, unit, units);
    if (!place.slopes) return;
    PrefetchRows(place.slopes, job_.G, unit, units);
    PrefetchRows(place.extras, job_.E, unit, units);
    if (place.before) PrefetchRows(place.before, 1, unit, units);
  }

 private:
  static Source WeightsOf(const Job &job, int64_t first_gate, int64_t gates) {
    const int64_t X = job.G * job.H, K = job.V ? job.H : 0;
    return {job.V + first_gate * job.H, kFloat32, K, gates, job.H, X, job.H, 1, job.H * X};
  }

  Number *BeforeAt(void *first, int64_t frame, int64_t d) const {
    return static_cast<Number *>(first) + frame * job_.before_frame + d * job_.before_direction;
  }
  float *StatesAt(int64_t row) const { return states_.get() + row * kMaxHeld * width_; }

  // Let a cell take what it needs of each vector of units of a tile, and do the rest with what it
  // returns: rest(place, unit, states, slopes, extras).
  template <class Cell, class Rest>
  INLINE void Advance(const Place *places, const Tile &tile, const Packed<Store> &matrix,
                      int first_gate, const Vec *sums, Rest rest) const {
    const int64_t first = tile.panel * matrix.units(), behind = first + matrix.units();
    const int gates = matrix.gates();
    for (int64_t r = 0; r < tile.count; ++r) {
      const Place &place = places[tile.first + r * tile.step];
      for (int64_t unit = first; unit < behind && unit < job_.H; unit += LANES) {
        const Vec *sum = sums + r * matrix.vectors() + (unit - first) / LANES * gates;
        Vec a[kMaxGates], s[kHeld<Cell>], p[Cell::kCoefficients + 1];
        Vec slopes[Cell::kGates] = {}, extras[Cell::kCoefficients + Cell::kExtras + 1];
        for (int g = 0; g < Cell::kSummed; ++g) {
          a[g] = Get(place.terms, first_gate + g, unit) + sum[g];
        }
        float *states = place.states + unit;
        for (int k = 0; k < kHeld<Cell>; ++k) s[k] = LoadSome<Vec>(states + k * width_, LANES);
        const Vec m = place.mask ? Some(place.mask, unit) : Vec{} + 1.0f;
        for (int k = 0; k < Cell::kCoefficients; ++k) {
          p[k] = Some(place.coefficients + k * job_.H, unit);
        }
        Cell::Next(a, s, m, p, slopes, extras);
        for (int k = 0; k < kHeld<Cell>; ++k) StoreSome(states + k * width_, s[k], LANES);
        rest(place, unit, s, slopes, extras);
      }
    }
  }

  // The state after a frame: handed on, fed to the product of the next step, and kept for the
  // gradient of V.
  template <class Cell>
  static void FinishCell(const Forward &f, const Place *places, const Tile &tile,
                         const Vec *sums) {
    constexpr bool resets = kResets<Cell>;
    f.template Advance<Cell>(
        places, tile, resets ? *f.last_ : f.first_, resets ? Cell::kGates - 1 : 0, sums,
        [&f](const Place &place, int64_t unit, const Vec *s, const Vec *slopes, const Vec *extras) {
          if constexpr (Cell::kRecurs) f.Put(place.fed, 0, unit, s[0]);
          f.Put(place.h, 0, unit, s[0]);
          if (!place.slopes) return;
          if (place.before) f.Put(place.before, 0, unit, s[0]);
          for (int g = 0; g < Cell::kGates; ++g) f.Put(place.slopes, g, unit, slopes[g]);
          for (int e = 0; e < Cell::kCoefficients + Cell::kExtras; ++e) {
            f.Put(place.extras, e, unit, extras[e]);
          }
          if constexpr (resets) f.Put(place.restored, 0, unit, s[kHeld<Cell> - 1]);
        });
  }

  // What V multiplies for the last gate.
  template <class Reset>
  static void FinishReset(const Forward &f, const Place *places, const Tile &tile,
                          const Vec *sums) {
    f.template Advance<Reset>(
        places, tile, f.first_, 0, sums,
        [&f](const Place &place, int64_t unit, const Vec *s, const Vec *, const Vec *) {
          f.Put(place.inner, 0, unit, s[kHeld<Reset> - 1] * s[0]);
        });
  }

  template <class Cell>
  static constexpr Finishes FinishesOfCell() {
    if constexpr (kResets<Cell>) {
      return {FinishReset<typename Cell::Reset>, FinishCell<Cell>};
    } else {
      return {FinishCell<Cell>, nullptr};
    }
  }

#define ROW(name, Cell, Back) FinishesOfCell<Cell>(),
  template <class F>
  static Finishes FinishesWith(int64_t unit) {
    static constexpr Finishes kOf[] = {FOR_UNITS(ROW)};
    return kOf[unit];
  }
#undef ROW

#define ROW(name, Function) FinishesWith<Function>,
  static Finishes FinishesOf(const Job &job) {
    static constexpr Finishes (*kWith[])(int64_t) = {FOR_ACTIVATIONS(ROW)};
    return kWith[job.activation](job.unit);
  }
#undef ROW

  Buffer<float> states_;  // [B, D, kMaxHeld, width]
  const Finishes finishes_;
};

}  // namespace
