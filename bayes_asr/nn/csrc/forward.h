// The way forwards through time.  Included once by each path.

template <class Store>
class Forward : public Sweep<Store, Forward<Store>> {
  using Base = Sweep<Store, Forward>;
  using typename Base::Finish, typename Base::Number;
  using Base::fed_, Base::first_, Base::inner_, Base::job_, Base::last_, Base::width_;
  using Base::ExtrasAt, Base::Left, Base::PrefetchRows, Base::Put, Base::SlopesAt, Base::Some, Base::Step;

 public:
  explicit Forward(const Job &job)
      : Base(job, WeightsOf(job, 0, job.unit == kGru ? 2 : job.G), WeightsOf(job, 2, 1)),
        finish_(FinishOf(job)) {
    for (int i = 0; i < (job.unit == kLstm ? 2 : 1); ++i) {
      states_[i] = Buffer<float>(job.B * job.D * width_);
      for (int64_t row = 0; row < job.B * job.D; ++row) {
        const float *from = job.initial[i] + row * job.H;
        std::memcpy(states_[i].get() + row * width_, from, job.H * sizeof(float));
        for (int64_t unit = 0; i == 0 && unit < job.H; unit += LANES) {
          Feed(0, {row / job.D, row % job.D, row}, unit, Some(from, unit));
        }
      }
    }
    if (last_) update_ = Buffer<float>(job.B * job.D * width_);
  }

  void Go(int thread, int threads) {
    for (int64_t t = 0; t < job_.T; ++t) {
      const int64_t alive = job_.sizes[t];
      Step(t, alive, fed_[t % 2], first_, last_ ? FinishReset : finish_, thread, threads);
      if (last_) Step(t, alive, inner_, *last_, finish_, thread, threads);
    }
  }

  void Prefetch(int64_t t, const Tile &tile, const Packed<Store> &matrix) const {
    const int64_t first = tile.panel * matrix.units(), units = matrix.units();
    for (int64_t r = 0; r < tile.rows; ++r) {
      const Place at = PlaceOf(job_, job_.sets, tile.set, tile.first_row + r);
      const int64_t frame = FrameOf(job_, t, at.b, at.d);
      PrefetchRows(TermsAt(at, frame), job_.G, first, units);
      PrefetchRows(job_.h + frame * job_.h_frame + at.d * job_.H, 1, first, units);
      if (!job_.slopes) continue;
      PrefetchRows(SlopesAt(at, frame), job_.G, first, units);
      PrefetchRows(ExtrasAt(at, frame), job_.E, first, units);
      if (t + 1 < job_.lengths[at.b]) {
        PrefetchRows(BeforeAt(job_.before, at, FrameOf(job_, t + 1, at.b, at.d)), 1, first, units);
      }
    }
  }

 private:
  static Source WeightsOf(const Job &job, int64_t first_gate, int64_t gates) {
    const int64_t X = job.G * job.H;
    return {job.V + first_gate * job.H, job.H, gates, job.H, X, job.H, 1, job.H * X};
  }

  // Hand h to the product of step t, and keep it for the gradient of V.
  void Feed(int64_t t, const Place &at, int64_t unit, Vec h) {
    Put(fed_[t % 2].at(at.row), 0, unit, h);
    if (job_.before && t < job_.lengths[at.b]) {
      Put(BeforeAt(job_.before, at, FrameOf(job_, t, at.b, at.d)), 0, unit, h);
    }
  }

  Number *BeforeAt(void *first, const Place &at, int64_t frame) const {
    return static_cast<Number *>(first) + frame * job_.before_frame + at.d * job_.before_direction;
  }
  float *StateAt(int i, const Place &at, int64_t unit) const {
    return states_[i].get() + at.row * width_ + unit;
  }
  const float *TermsAt(const Place &at, int64_t frame) const {
    return job_.terms + frame * job_.terms_frame + at.d % job_.term_sets * job_.G * job_.H;
  }
  Vec MaskAt(const Place &at, int64_t unit) const {
    return job_.mask ? Some(job_.mask + at.row * job_.H, unit) : Vec{} + 1.0f;
  }

  // The state after a frame, from the pre-activations of all gates.
  template <class Cell>
  static void FinishCell(Forward &f, int64_t t, const Tile &tile, const Vec *sums) {
    const Job &job = f.job_;
    const int64_t first = tile.panel * f.first_.units(), behind = first + f.first_.units();
    for (int64_t r = 0; r < tile.rows; ++r) {
      const Place at = PlaceOf(job, job.sets, tile.set, tile.first_row + r);
      const int64_t frame = FrameOf(job, t, at.b, at.d);
      const float *terms = f.TermsAt(at, frame);
      for (int64_t unit = first; unit < behind; unit += LANES, sums += Cell::kGates) {
        if (unit >= job.H) continue;
        Vec a[Cell::kGates], s[Cell::kStates], slopes[Cell::kGates], extras[Cell::kExtras + 1];
        for (int g = 0; g < Cell::kGates; ++g) a[g] = f.Some(terms + g * job.H, unit) + sums[g];
        for (int i = 0; i < Cell::kStates; ++i) s[i] = LoadSome<Vec>(f.StateAt(i, at, unit), LANES);
        Cell::Next(a, s, f.MaskAt(at, unit), slopes, extras);
        for (int i = 0; i < Cell::kStates; ++i) StoreSome(f.StateAt(i, at, unit), s[i], LANES);
        f.Feed(t + 1, at, unit, s[0]);
        StoreSome(job.h + frame * job.h_frame + at.d * job.H + unit, s[0], f.Left(unit));
        if (!job.slopes) continue;
        for (int g = 0; g < Cell::kGates; ++g) f.Put(f.SlopesAt(at, frame), g, unit, slopes[g]);
        for (int e = 0; e < Cell::kExtras; ++e) {
          f.Put(f.ExtrasAt(at, frame), e, unit, extras[e]);
        }
      }
    }
  }

  // What V multiplies for the candidate of a GRU.
  static void FinishReset(Forward &f, int64_t t, const Tile &tile, const Vec *sums) {
    const Job &job = f.job_;
    const int64_t unit = tile.panel * LANES;
    for (int64_t r = 0; r < tile.rows; ++r, sums += 2) {
      const Place at = PlaceOf(job, job.sets, tile.set, tile.first_row + r);
      const int64_t frame = FrameOf(job, t, at.b, at.d);
      const float *terms = f.TermsAt(at, frame);
      const Logistic reset(f.Some(terms + job.H, unit) + sums[1]);
      const Vec h = LoadSome<Vec>(f.StateAt(0, at, unit), LANES), restored = reset.of * h;
      StoreSome(f.update_.get() + at.row * f.width_ + unit, f.Some(terms, unit) + sums[0], LANES);
      f.Put(f.inner_.at(at.row), 0, unit, restored);
      if (!job.slopes) continue;
      f.Put(f.BeforeAt(job.restored, at, frame), 0, unit, restored);
      f.Put(f.SlopesAt(at, frame), 1, unit, h * reset.of * reset.of_minus);
      f.Put(f.ExtrasAt(at, frame), 1, unit, reset.of);
    }
  }

  // The state after a frame of a GRU, from the pre-activation of its candidate.
  template <class F>
  static void FinishGru(Forward &f, int64_t t, const Tile &tile, const Vec *sums) {
    const Job &job = f.job_;
    const int64_t first = tile.panel * f.last_->units(), behind = first + f.last_->units();
    for (int64_t r = 0; r < tile.rows; ++r) {
      const Place at = PlaceOf(job, job.sets, tile.set, tile.first_row + r);
      const int64_t frame = FrameOf(job, t, at.b, at.d);
      for (int64_t unit = first; unit < behind; unit += LANES, ++sums) {
        if (unit >= job.H) continue;
        const Vec a[] = {LoadSome<Vec>(f.update_.get() + at.row * f.width_ + unit, LANES),
                         f.Some(f.TermsAt(at, frame) + 2 * job.H, unit) + *sums};
        Vec h = LoadSome<Vec>(f.StateAt(0, at, unit), LANES), slopes[2], kept;
        Mixing<F>::Next(a, &h, f.MaskAt(at, unit), slopes, &kept);
        StoreSome(f.StateAt(0, at, unit), h, LANES);
        f.Feed(t + 1, at, unit, h);
        StoreSome(job.h + frame * job.h_frame + at.d * job.H + unit, h, f.Left(unit));
        if (!job.slopes) continue;
        f.Put(f.SlopesAt(at, frame), 0, unit, slopes[0]);
        f.Put(f.SlopesAt(at, frame), 2, unit, slopes[1]);
        f.Put(f.ExtrasAt(at, frame), 0, unit, kept);
      }
    }
  }

  template <class... F>
  static Finish FinishOfActivation(const Job &job) {
    static constexpr Finish kOfRnn[] = {FinishCell<Rnn<F>>...};
    static constexpr Finish kOfMixing[] = {FinishCell<Mixing<F>>...};
    static constexpr Finish kOfGru[] = {FinishGru<F>...};
    return (job.unit == kRnn ? kOfRnn : job.unit == kMixing ? kOfMixing : kOfGru)[job.activation];
  }

  static Finish FinishOf(const Job &job) {
    if (job.unit == kLiBru) return FinishCell<LogMixing<-1>>;
    if (job.unit == kLogLiBru) return FinishCell<LogMixing<1>>;
    if (job.unit == kLstm) return FinishCell<Lstm>;
    return FinishOfActivation<TanhOf, SigmoidOf, ReluOf, SoftplusOf, LogSigmoidOf>(job);
  }

  Buffer<float> states_[kMaxStates], update_;  // [B, D, width]; `update_` is a_z of a GRU
  Finish finish_;
};
