// What both ways through time share: packed weights, a team, and the work of one time step.
//
// A way has a struct Place, which says where a row of a time step reads and writes.  Every thread
// finds the places of all rows once a step, since it needs them for each of its panels.

#pragma once

#include "cells.h"
#include "tiles.h"

namespace {

template <class Store, class Place, class Way>
class Sweep {
 public:
  void Run() { team_.Run(*this); }

  // The share of one thread.
  void operator()(int thread, int threads) {
    const typename Multiplier<Store>::InUse in_use;
    first_.Fill(thread, threads);
    if (last_) last_->Fill(thread, threads);
    Member member{thread, threads, false};
    static_cast<Way *>(this)->Go(member);
  }

 protected:
  using Number = typename Store::Number;
  // A thread of the team, and whether it took the last step apart from the others.
  struct Member {
    int thread, threads;
    bool apart;
  };
  using Finish = void (*)(const Way &, const Place *places, const Tile &, const Vec *sums);
  struct Finishes {
    Finish first, last;  // after each product of a step; null where there is no second one
  };

  // last: the weights of the last gate of a unit that resets, to which a product of its own leads.
  Sweep(const Job &job, const Source &first, const Source &last)
      : job_(job),
        width_((job.H + LANES - 1) / LANES * LANES),
        fed_{{job, first.K}, {job, first.K}},
        first_(first, job.sets, Multiplier<Store>::kWords),
        places_(job.threads * job.B * job.D),
        team_(static_cast<int>(job.threads)) {
    if (kUnits[job.unit].resets) {
      last_ = std::make_unique<Packed<Store>>(last, job.sets, Multiplier<Store>::kWords);
      inner_ = Rows<Store>(job, last.K);
    }
  }

  // Find the places of step t, before the first step -1, for one thread.
  const Place *PlacesOf(int64_t t, const Member &member) {
    Place *places = places_.get() + member.thread * job_.B * job_.D;
    for (int64_t b = 0, row = 0; b < AliveAt(t); ++b) {
      for (int64_t d = 0; d < job_.D; ++d, ++row) {
        places[row] = static_cast<Way *>(this)->PlaceOf(t, b, d, row);
      }
    }
    return places;
  }

  // Multiply the rows of `alive` sequences by `matrix` and finish each tile of step t.  No row needs
  // those of the other direction, so that two threads may go through time apart, one in each; they
  // wait for one another before a step unless it and the one before are taken apart.
  void Step(int64_t t, const Place *places, int64_t alive, const Rows<Store> &rows,
            const Packed<Store> &matrix, Finish finish, Member &member) {
    const bool apart = member.threads == job_.D && AliveAt(t) >= kAliveApart;
    if (!apart || !member.apart) team_.Meet();
    member.apart = apart;
    const Tiles tiles(job_, Multiplier<Store>::kRows, matrix.sets(), matrix.panels(), AliveAt(t),
                      apart ? member.thread : Tiles::kAll);
    const int64_t part = apart ? 0 : member.thread, parts = apart ? 1 : member.threads;
    Vec sums[Multiplier<Store>::kRows * kTile];
    for (int64_t i = tiles.count * part / parts; i < tiles.count * (part + 1) / parts; ++i) {
      const Tile tile = tiles[i];
      Prefetch(places, tile, tile.panel * matrix.units(), matrix.units());
      MultiplyTile(job_, tile, rows, matrix, alive, sums);
      finish(*static_cast<Way *>(this), places, tile, sums);
    }
  }

  // Have `count` rows of H numbers at hand when the product is there; each row of a tile is a place
  // of its own, too many for the machine to foresee.  What is only read is not asked for to be
  // written, which would take it away from another core.  Inlined, since GCC drops calls that only
  // prefetch.
  template <class T>
  INLINE void PrefetchRows(T *rows, int64_t count, int64_t unit, int64_t units) const {
    if (!count) return;
    constexpr bool written = !std::is_const<T>::value;
    const int64_t bytes = (units < Left(unit) ? units : Left(unit)) * sizeof(T);
    const char *from = reinterpret_cast<const char *>(rows + unit);
    for (int64_t i = 0; i < count; ++i, from += job_.H * sizeof(T)) {
      for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(from + at, written);
      __builtin_prefetch(from + bytes - 1, written);
    }
  }

  int64_t AliveAt(int64_t t) const { return job_.sizes[t < 0 ? 0 : t]; }
  int64_t Left(int64_t unit) const { return job_.H - unit; }
  Vec Some(const float *row, int64_t unit) const { return LoadSome<Vec>(row + unit, Left(unit)); }
  Number *SlopesAt(int64_t frame, int64_t d) const {
    return static_cast<Number *>(job_.slopes) + frame * job_.slopes_frame +
           d * job_.slopes_direction;
  }
  Number *ExtrasAt(int64_t frame, int64_t d) const {
    return static_cast<Number *>(job_.extras) + (frame * job_.D + d) * job_.E * job_.H;
  }
  // Row `i` of those of H numbers that lie one after the other.
  Vec Get(const Number *rows, int64_t i, int64_t unit) const {
    return Store::Load(rows + i * job_.H + unit, Left(unit));
  }
  void Put(Number *rows, int64_t i, int64_t unit, Vec values) const {
    Store::Store(rows + i * job_.H + unit, values, Left(unit));
  }

  const Job &job_;
  const int64_t width_;         // H, filled up to whole vectors
  Rows<Store> fed_[2], inner_;  // left sides of the products of even and odd steps; of `last_`
  Packed<Store> first_;
  std::unique_ptr<Packed<Store>> last_;

 private:
  // Sequences for which it is worth reading all weights of a direction in each thread, of which it
  // would read a half where directions share them.
  static constexpr int64_t kAliveApart = 8;

  INLINE void Prefetch(const Place *places, const Tile &tile, int64_t unit, int64_t units) const {
    for (int64_t r = 0; r < tile.count; ++r) {
      static_cast<const Way *>(this)->Prefetch(places[tile.first + r * tile.step], unit, units);
    }
  }

  Buffer<Place> places_;  // [threads, B, D]
  Team team_;
};

}  // namespace
