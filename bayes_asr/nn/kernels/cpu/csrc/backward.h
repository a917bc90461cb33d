// The way back through time: with g_t = dL/dh_t, da_t = slopes * g_t takes the place of the slopes
// and g_{t-1} = extras * g_t + da_t V^T.

#pragma once

#include "sweep.h"

namespace {

template <class Store>
struct BackwardPlace {
  using Number = typename Store::Number;
  Number *slopes;
  const Number *extras, *arriving;
  Number *fed, *inner;  // to the product of the step before, and to that of the last gate
  float *carry, *by_coefficients;
  int64_t row;
};

template <class Store>
class Backward : public Sweep<Store, BackwardPlace<Store>, Backward<Store>> {
  using Place = BackwardPlace<Store>;
  using Base = Sweep<Store, Place, Backward>;
  using typename Base::Finishes, typename Base::Member, typename Base::Number;
  using Base::fed_, Base::first_, Base::inner_, Base::job_, Base::last_, Base::width_;
  using Base::ExtrasAt, Base::Get, Base::Left, Base::Put, Base::SlopesAt;
  using Base::PlacesOf, Base::PrefetchRows, Base::Step;

 public:
  explicit Backward(const Job &job)
      : Base(job, WeightsOf(job, 0, FirstGates(job)), WeightsOf(job, job.G - 1, 1)),
        carry_(job.B * job.D * width_),
        finishes_(FinishesOf(job)) {}

  void Go(Member &member) {
    for (int64_t t = job_.T - 1; t >= 0; --t) {
      const int64_t alive = t + 1 < job_.T ? job_.sizes[t + 1] : 0;
      const Place *places = PlacesOf(t, member);
      Step(t, places, alive, fed_[(t + 1) % 2], first_, finishes_.first, member);
      if (last_) Step(t, places, job_.sizes[t], inner_, *last_, finishes_.last, member);
    }
    Step(-1, PlacesOf(-1, member), job_.B, fed_[0], first_, FinishTiles<Start>, member);
  }

  Place PlaceOf(int64_t t, int64_t b, int64_t d, int64_t row) const {
    Place place{};
    place.row = row;
    place.carry = carry_.get() + row * width_;
    place.by_coefficients = job_.by_coefficients + row * job_.P * job_.H;
    if (t < 0) return place;
    const int64_t frame = FrameOf(job_, t, b, d);
    place.slopes = SlopesAt(frame, d);
    place.extras = ExtrasAt(frame, d);
    place.arriving = static_cast<const Number *>(job_.arriving) + (frame * job_.D + d) * job_.H;
    place.fed = fed_[t % 2].at(row);
    if (last_) place.inner = inner_.at(row);
    return place;
  }

  INLINE void Prefetch(const Place &place, int64_t unit, int64_t units) const {
    if (!place.slopes) return;
    PrefetchRows(place.slopes, job_.G, unit, units);
    PrefetchRows(place.extras, job_.E, unit, units);
    PrefetchRows(place.arriving, 1, unit, units);
  }

 private:
  // V^T of some gates.
  static Source WeightsOf(const Job &job, int64_t first_gate, int64_t gates) {
    const int64_t X = job.G * job.H;
    const int64_t K = job.V ? gates * job.H : 0;
    return {job.V + first_gate * job.H, kFloat32, K, 1, job.H, 1, 0, X, job.H * X};
  }

  // The gradient of a pre-activation: kept, and fed to the product of the step before.
  void Emit(const Place &at, int64_t unit, int gate, Number *fed, int fed_gate, Vec da) const {
    Put(at.slopes, gate, unit, da);
    if (job_.V) Put(fed, fed_gate, unit, da);
  }
  // The gradient of coefficient k, for that of the state it acts on.
  void AddUp(const Place &at, int64_t unit, int64_t k, Vec g) const {
    float *sum = at.by_coefficients + k * job_.H + unit;
    const Vec old = LoadSome<Vec>(sum, Left(unit));
    StoreSome(sum, old + Get(at.extras, k, unit) * g, Left(unit));
  }
  void AddUpAll(const Place &at, int64_t unit, Vec g) const {
    for (int64_t k = 0; k < job_.P; ++k) AddUp(at, unit, k, g);
  }
  Vec Slope(const Place &at, int64_t unit, int gate) const { return Get(at.slopes, gate, unit); }
  Vec Extra(const Place &at, int64_t unit, int i) const { return Get(at.extras, job_.P + i, unit); }
  Vec Arriving(const Place &at, int64_t unit) const { return Get(at.arriving, 0, unit); }
  static Vec Carry(const Place &at, int64_t unit) { return LoadSome<Vec>(at.carry + unit, LANES); }
  static void SetCarry(const Place &at, int64_t unit, Vec value) {
    StoreSome(at.carry + unit, value, LANES);
  }

  // Each of these is given h's gradient through the product of the next frame, and its Reset, where
  // it has one, the gradient of what V multiplied for the last gate.
  struct RnnBack {
    static void At(const Backward &f, const Place &at, int64_t unit, Vec through) {
      const Vec g = through + f.Arriving(at, unit);
      f.Emit(at, unit, 0, at.fed, 0, f.Slope(at, unit, 0) * g);
      f.AddUpAll(at, unit, g);
    }
  };

  template <int kGates>
  struct MixingBack {
    static void At(const Backward &f, const Place &at, int64_t unit, Vec through) {
      const Vec g = through + Carry(at, unit) + f.Arriving(at, unit);
      for (int gate = 0; gate < kGates; ++gate) {
        f.Emit(at, unit, gate, at.fed, gate, f.Slope(at, unit, gate) * g);
      }
      SetCarry(at, unit, f.Extra(at, unit, 0) * g);
      f.AddUpAll(at, unit, g);
    }
  };

  template <bool kPeeps>
  struct LstmBack {
    static void At(const Backward &f, const Place &at, int64_t unit, Vec through) {
      const Vec by_h = through + f.Arriving(at, unit);
      const Vec by_c = Carry(at, unit) + f.Extra(at, unit, 0) * by_h;
      for (int gate = 0; gate < 4; ++gate) {
        f.Emit(at, unit, gate, at.fed, gate, f.Slope(at, unit, gate) * (gate < 3 ? by_c : by_h));
      }
      SetCarry(at, unit, f.Extra(at, unit, 1) * by_c);
      for (int k = 0; kPeeps && k < 3; ++k) f.AddUp(at, unit, k, k < 2 ? by_c : by_h);
    }
  };

  // The outputs are the first of two states, and the carry is the gradient of the second.
  struct LaterBack {
    static void At(const Backward &f, const Place &at, int64_t unit, Vec) {
      const Vec carry = Carry(at, unit), g = carry + f.Arriving(at, unit);
      f.Emit(at, unit, 0, at.fed, 0, f.Slope(at, unit, 0) * carry);
      SetCarry(at, unit, f.Extra(at, unit, 0) * g);
      f.AddUpAll(at, unit, g);
    }
  };

  // The second state comes of the first, which was the second before.
  struct GatedLaterBack {
    static void At(const Backward &f, const Place &at, int64_t unit, Vec) {
      const Vec g = Carry(at, unit);
      for (int gate = 0; gate < 3; ++gate) {
        f.Emit(at, unit, gate, at.fed, gate, f.Slope(at, unit, gate) * g);
      }
      SetCarry(at, unit, f.Extra(at, unit, 0) * g + f.Arriving(at, unit));
    }
  };

  struct GruBack {
    static void At(const Backward &f, const Place &at, int64_t unit, Vec through) {
      const Vec g = through + Carry(at, unit) + f.Arriving(at, unit);
      f.Emit(at, unit, 0, at.fed, 0, f.Slope(at, unit, 0) * g);
      f.Emit(at, unit, 2, at.inner, 0, f.Slope(at, unit, 2) * g);
      SetCarry(at, unit, f.Extra(at, unit, 0) * g);
      f.AddUpAll(at, unit, g);
    }

    struct Reset {
      static void At(const Backward &f, const Place &at, int64_t unit, Vec through) {
        f.Emit(at, unit, 1, at.fed, 1, f.Slope(at, unit, 1) * through);
        SetCarry(at, unit, Carry(at, unit) + f.Extra(at, unit, 1) * through);
      }
    };
  };

  // What the gate's gradient owes to mixing waits among the slopes for what it owes to the reset.
  struct OneGateBack {
    static void At(const Backward &f, const Place &at, int64_t unit, Vec through) {
      const Vec g = through + Carry(at, unit) + f.Arriving(at, unit);
      f.Put(at.slopes, 0, unit, f.Slope(at, unit, 0) * g);
      f.Emit(at, unit, 1, at.inner, 0, f.Slope(at, unit, 1) * g);
      SetCarry(at, unit, f.Extra(at, unit, 0) * g);
      f.AddUpAll(at, unit, g);
    }

    struct Reset {
      static void At(const Backward &f, const Place &at, int64_t unit, Vec through) {
        const Vec by_reset = f.Extra(at, unit, 2) * through;
        f.Emit(at, unit, 0, at.fed, 0, f.Slope(at, unit, 0) + by_reset);
        SetCarry(at, unit, Carry(at, unit) + f.Extra(at, unit, 1) * through);
      }
    };
  };

  struct Start {
    static void At(const Backward &f, const Place &at, int64_t unit, Vec through) {
      const Job &job = f.job_;
      const int64_t place = at.row * job.H + unit, left = f.Left(unit);
      const bool two = kUnits[job.unit].states == 2;  // the carry is that of the second
      StoreSome(job.by_initial[0] + place, two ? through : through + Carry(at, unit), left);
      if (two) StoreSome(job.by_initial[1] + place, Carry(at, unit), left);
    }
  };

  template <class Part>
  static void FinishTiles(const Backward &f, const Place *places, const Tile &tile,
                          const Vec *sums) {
    const int64_t first = tile.panel * f.first_.units(), behind = first + f.first_.units();
    for (int64_t r = 0; r < tile.count; ++r) {
      for (int64_t unit = first; unit < behind; unit += LANES, ++sums) {
        if (unit < f.job_.H) Part::At(f, places[tile.first + r * tile.step], unit, *sums);
      }
    }
  }

  template <class Back>
  static constexpr Finishes FinishesOfBack() {
    if constexpr (kResets<Back>) {
      return {FinishTiles<Back>, FinishTiles<typename Back::Reset>};
    } else {
      return {FinishTiles<Back>, nullptr};
    }
  }

#define ROW(name, Cell, Back) FinishesOfBack<Back>(),
  static Finishes FinishesOf(const Job &job) {
    static constexpr Finishes kOf[] = {FOR_UNITS(ROW)};
    return kOf[job.unit];
  }
#undef ROW

  Buffer<float> carry_;  // [B, D, width] gradient of the state, but for what comes through V
  const Finishes finishes_;
};

}  // namespace
