// The way back through time: with g_t = dL/dh_t, da_t = slopes * g_t takes the place of the slopes
// and g_{t-1} = extras * g_t + da_t V^T.  Included once by each path.

template <class Store>
class Backward : public Sweep<Store, Backward<Store>> {
  using Base = Sweep<Store, Backward>;
  using typename Base::Finish, typename Base::Number;
  using Base::fed_, Base::first_, Base::inner_, Base::job_, Base::last_, Base::width_;
  using Base::ExtrasAt, Base::Get, Base::Left, Base::Put, Base::SlopesAt, Base::Some;
  using Base::PrefetchRows, Base::Step;

 public:
  explicit Backward(const Job &job)
      : Base(job, WeightsOf(job, 0, job.unit == kGru ? 2 : job.G), WeightsOf(job, 2, 1)),
        carry_(job.B * job.D * width_),
        finish_(FinishOf(job)) {}

  void Go(int thread, int threads) {
    for (int64_t t = job_.T - 1; t >= 0; --t) {
      const int64_t alive = t + 1 < job_.T ? job_.sizes[t + 1] : 0;
      Step(t, alive, fed_[(t + 1) % 2], first_, finish_, thread, threads);
      if (last_) Step(t, job_.sizes[t], inner_, *last_, FinishTiles<Reset>, thread, threads);
    }
    Step(-1, job_.B, fed_[0], first_, FinishTiles<Start>, thread, threads);
  }

  INLINE void Prefetch(int64_t t, const Tile &tile, const Packed<Store> &matrix) const {
    const int64_t first = tile.panel * matrix.units(), units = matrix.units();
    for (int64_t r = 0; r < tile.rows && t >= 0; ++r) {
      const Place at = PlaceOf(job_, job_.sets, tile.set, tile.first_row + r);
      const int64_t frame = FrameOf(job_, t, at.b, at.d);
      PrefetchRows(SlopesAt(at, frame), job_.G, first, units);
      PrefetchRows(ExtrasAt(at, frame), job_.E, first, units);
      PrefetchRows(job_.arriving + (frame * job_.D + at.d) * job_.H, 1, first, units);
    }
  }

 private:
  // V^T of some gates.
  static Source WeightsOf(const Job &job, int64_t first_gate, int64_t gates) {
    const int64_t X = job.G * job.H;
    return {job.V + first_gate * job.H, gates * job.H, 1, job.H, 1, 0, X, job.H * X};
  }

  // Where a vector of units of a row of a tile lies.
  struct Here {
    Place at;
    int64_t frame, unit;
    Number *fed;
    float *carry;
  };

  // The gradient of a pre-activation: kept, and fed to the product of the step before.
  void Emit(const Here &here, int gate, Number *fed, int fed_gate, Vec da) const {
    Put(SlopesAt(here.at, here.frame), gate, here.unit, da);
    Put(fed, fed_gate, here.unit, da);
  }
  Vec Slope(const Here &here, int gate) const {
    return Get(SlopesAt(here.at, here.frame), gate, here.unit);
  }
  Vec Extra(const Here &here, int i) const {
    return Get(ExtrasAt(here.at, here.frame), i, here.unit);
  }
  Vec Arriving(const Here &here) const {
    return Some(job_.arriving + (here.frame * job_.D + here.at.d) * job_.H, here.unit);
  }
  static Vec Carry(const Here &here) { return LoadSome<Vec>(here.carry, LANES); }
  static void SetCarry(const Here &here, Vec value) { StoreSome(here.carry, value, LANES); }

  // Each of these is given h's gradient through the product of the next frame.
  struct Rnn {
    static void At(const Backward &f, const Here &here, Vec through) {
      f.Emit(here, 0, here.fed, 0, f.Slope(here, 0) * (through + f.Arriving(here)));
    }
  };

  struct Mixing {
    static void At(const Backward &f, const Here &here, Vec through) {
      const Vec g = through + Carry(here) + f.Arriving(here);
      for (int gate = 0; gate < 2; ++gate) {
        f.Emit(here, gate, here.fed, gate, f.Slope(here, gate) * g);
      }
      SetCarry(here, f.Extra(here, 0) * g);
    }
  };

  struct Lstm {
    static void At(const Backward &f, const Here &here, Vec through) {
      const Vec by_h = through + f.Arriving(here);
      const Vec by_c = Carry(here) + f.Extra(here, 0) * by_h;
      for (int gate = 0; gate < 4; ++gate) {
        f.Emit(here, gate, here.fed, gate, f.Slope(here, gate) * (gate < 3 ? by_c : by_h));
      }
      SetCarry(here, f.Extra(here, 1) * by_c);
    }
  };

  struct Gru {
    static void At(const Backward &f, const Here &here, Vec through) {
      const Vec g = through + Carry(here) + f.Arriving(here);
      f.Emit(here, 0, here.fed, 0, f.Slope(here, 0) * g);
      f.Emit(here, 2, f.inner_.at(here.at.row), 0, f.Slope(here, 2) * g);
      SetCarry(here, f.Extra(here, 0) * g);
    }
  };

  // Given the gradient of what V multiplied for the candidate of a GRU.
  struct Reset {
    static void At(const Backward &f, const Here &here, Vec through) {
      f.Emit(here, 1, here.fed, 1, f.Slope(here, 1) * through);
      SetCarry(here, Carry(here) + f.Extra(here, 1) * through);
    }
  };

  struct Start {
    static void At(const Backward &f, const Here &here, Vec through) {
      const Job &job = f.job_;
      const int64_t place = here.at.row * job.H + here.unit, left = f.Left(here.unit);
      const bool two = job.unit == kLstm;
      StoreSome(job.by_initial[0] + place, two ? through : through + Carry(here), left);
      if (two) StoreSome(job.by_initial[1] + place, Carry(here), left);
    }
  };

  template <class Part>
  static void FinishTiles(Backward &f, int64_t t, const Tile &tile, const Vec *sums) {
    const Job &job = f.job_;
    const int64_t first = tile.panel * f.first_.units(), behind = first + f.first_.units();
    for (int64_t r = 0; r < tile.rows; ++r) {
      const Place at = PlaceOf(job, job.sets, tile.set, tile.first_row + r);
      const int64_t frame = t < 0 ? 0 : FrameOf(job, t, at.b, at.d);
      Number *fed = f.fed_[(t + 2) % 2].at(at.row);
      for (int64_t unit = first; unit < behind; unit += LANES, ++sums) {
        if (unit >= job.H) continue;
        Part::At(f, {at, frame, unit, fed, f.carry_.get() + at.row * f.width_ + unit}, *sums);
      }
    }
  }

  static Finish FinishOf(const Job &job) {
    switch (job.unit) {
      case kRnn: return FinishTiles<Rnn>;
      case kLstm: return FinishTiles<Lstm>;
      case kGru: return FinishTiles<Gru>;
      default: return FinishTiles<Mixing>;
    }
  }

  Buffer<float> carry_;  // [B, D, width] gradient of the state, but for what comes through V
  Finish finish_;
};
