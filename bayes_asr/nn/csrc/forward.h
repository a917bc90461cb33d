// The way forwards through time.  Included once by each path.

template <class Store>
class Forward : public Sweep<Store, Forward<Store>> {
  using Base = Sweep<Store, Forward>;
  using typename Base::Finish, typename Base::Number;
  using Base::fed_, Base::first_, Base::inner_, Base::job_, Base::last_, Base::width_;
  using Base::ExtrasAt, Base::Left, Base::Put, Base::SlopesAt, Base::Some;
  using Base::PrefetchRows, Base::Step;

 public:
  explicit Forward(const Job &job)
      : Base(job, WeightsOf(job, 0, job.unit == kGru ? 2 : job.G), WeightsOf(job, 2, 1)),
        kept_(job.unit == kGru ? 3 : job.unit == kLstm ? 2 : 1),
        next_(NextOf(job)) {
    for (int i = 0; i < kept_; ++i) states_[i] = Buffer<float>(job.B * job.D * width_);
    for (int64_t row = 0; row < job.B * job.D; ++row) {
      const Place at{row / job.D, row % job.D, row};
      for (int64_t unit = 0; unit < job.H; unit += LANES) {
        for (int i = 0; i < kMaxInitial && job.initial[i]; ++i) {
          StoreSome(StateAt(i, at, unit), Some(job.initial[i] + row * job.H, unit), LANES);
        }
        Feed(0, at, unit, LoadSome<Vec>(StateAt(0, at, unit), LANES));
      }
    }
  }

  void Go(int thread, int threads) {
    for (int64_t t = 0; t < job_.T; ++t) {
      const int64_t alive = job_.sizes[t];
      Step(t, alive, fed_[t % 2], first_, last_ ? FinishReset : FinishCell, thread, threads);
      if (last_) Step(t, alive, inner_, *last_, FinishCell, thread, threads);
    }
  }

  INLINE void Prefetch(int64_t t, const Tile &tile, const Packed<Store> &matrix) const {
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

  // Take what the cell needs: the pre-activations of gates from `first_gate` on, and the states.
  int Gather(int64_t t, const Tile &tile, const Packed<Store> &matrix, int first_gate,
             const Vec *sums, Values *v) const {
    const int64_t first = tile.panel * matrix.units(), behind = first + matrix.units();
    int count = 0;
    for (int64_t r = 0; r < tile.rows; ++r) {
      const Place at = PlaceOf(job_, job_.sets, tile.set, tile.first_row + r);
      const int64_t frame = FrameOf(job_, t, at.b, at.d);
      const float *terms = TermsAt(at, frame) + first_gate * job_.H;
      for (int64_t unit = first; unit < behind; unit += LANES, sums += matrix.gates()) {
        if (unit >= job_.H) continue;
        v->at[count] = at;
        v->frame[count] = frame;
        v->unit[count] = unit;
        for (int g = 0; g < matrix.gates(); ++g) {
          v->a[g][count] = Some(terms + g * job_.H, unit) + sums[g];
        }
        for (int i = 0; i < kept_; ++i) {
          v->s[i][count] = LoadSome<Vec>(StateAt(i, at, unit), LANES);
        }
        v->m[count++] = MaskAt(at, unit);
      }
    }
    return count;
  }

  void SetStates(const Values &v, int i) const {
    for (int k = 0; k < kept_; ++k) StoreSome(StateAt(k, v.at[i], v.unit[i]), v.s[k][i], LANES);
  }

  // The state after a frame.
  static void FinishCell(Forward &f, int64_t t, const Tile &tile, const Vec *sums) {
    const Job &job = f.job_;
    const Packed<Store> &matrix = f.last_ ? *f.last_ : f.first_;
    Values v;
    const int count = f.Gather(t, tile, matrix, f.last_ ? 2 : 0, sums, &v);
    f.next_(v, count);
    for (int i = 0; i < count; ++i) {
      const Place &at = v.at[i];
      const int64_t frame = v.frame[i], unit = v.unit[i];
      f.SetStates(v, i);
      f.Feed(t + 1, at, unit, v.s[0][i]);
      StoreSome(job.h + frame * job.h_frame + at.d * job.H + unit, v.s[0][i], f.Left(unit));
      if (!job.slopes) continue;
      for (int g = 0; g < job.G; ++g) f.Put(f.SlopesAt(at, frame), g, unit, v.slopes[g][i]);
      for (int e = 0; e < job.E; ++e) f.Put(f.ExtrasAt(at, frame), e, unit, v.extras[e][i]);
      if (f.last_) f.Put(f.BeforeAt(job.restored, at, frame), 0, unit, v.s[2][i]);
    }
  }

  // What V multiplies for the candidate of a GRU.
  static void FinishReset(Forward &f, int64_t t, const Tile &tile, const Vec *sums) {
    Values v;
    const int count = f.Gather(t, tile, f.first_, 0, sums, &v);
    NextAtAll<GruReset>(v, count);
    for (int i = 0; i < count; ++i) {
      f.SetStates(v, i);
      f.Put(f.inner_.at(v.at[i].row), 0, v.unit[i], v.s[2][i] * v.s[0][i]);
    }
  }

  const int kept_;                    // states between frames
  Buffer<float> states_[kMaxStates];  // [B, D, width]
  const Next next_;
};
