// Sums over all paths of a lattice, the twin of expectation.py: same steps in the same order.

#include <cstdint>
#include <limits>
#include <vector>

#include "../../../base/csrc/elementary.h"
#include "../../../base/csrc/guarded.h"
#include "../../../base/csrc/interface.h"
#include "mbr.h"

extern "C" {

// Steps of paths from state 0 to the last state, those into a state before those out of it.  Step a
// passes the cells cells[offsets[a]] .. cells[offsets[a + 1]], each of a frame and a transition-id.
struct PathsView {
  int64_t num_states;
  int64_t num_steps;
  const int32_t *source;
  const int32_t *target;
  const double *weight;
  const int64_t *offsets;
  const int32_t *cells;
};
DESCRIBE(PathsView, num_states, num_steps, source, target, weight, offsets, cells);

}  // extern "C"

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double AddLogs(double one, double other) {
  const double more = one > other ? one : other, less = one > other ? other : one;
  return less == kNever ? more : more + elementary::Log(1.0 + elementary::Exp(less - more));
}

// What each step adds up of a value of its cells.
std::vector<double> SumCells(const PathsView &paths, const double *value) {
  std::vector<double> sums(paths.num_steps, 0);
  for (int64_t step = 0; step < paths.num_steps; ++step)
    for (int64_t at = paths.offsets[step]; at < paths.offsets[step + 1]; ++at)
      sums[step] += value[paths.cells[at]];
  return sums;
}

// Share of the paths that take a step, where all of them begin (or end) at one side of it.
double ShareOf(double step, double all) { return all == kNever ? 0 : elementary::Exp(step - all); }

}  // namespace

extern "C" {

// score, gain: of each cell, added to the log-weight of a path and to what it gains.  Writes the
// share of the paths that pass each cell, how the mean gain changes with the score of each, and
// totals: the log of the sum of all paths, and the mean gain.  Returns 0, or -1 if memory is short.
int32_t lattices_expect(const PathsView *paths, int64_t num_cells, const double *score,
                        const double *gain, double *share, double *slope, double *totals) {
  return Guarded<int32_t>(-1, [&] {
    const PathsView &of = *paths;
    std::vector<double> worth = SumCells(of, score);
    const std::vector<double> gained = SumCells(of, gain);
    for (int64_t step = 0; step < of.num_steps; ++step) worth[step] += of.weight[step];
    std::vector<double> before(of.num_states, kNever), after(of.num_states, kNever);
    std::vector<double> gain_before(of.num_states, 0), gain_after(of.num_states, 0);
    const int64_t last = of.num_states - 1;
    before[0] = after[last] = 0;
    for (int64_t step = 0; step < of.num_steps; ++step) {
      double &target = before[of.target[step]];
      target = AddLogs(target, before[of.source[step]] + worth[step]);
    }
    for (int64_t step = of.num_steps; step-- > 0;) {
      double &source = after[of.source[step]];
      source = AddLogs(source, after[of.target[step]] + worth[step]);
    }
    for (int64_t step = 0; step < of.num_steps; ++step) {
      const int32_t from = of.source[step], to = of.target[step];
      gain_before[to] += ShareOf(before[from] + worth[step], before[to]) *
                         (gain_before[from] + gained[step]);
    }
    for (int64_t step = of.num_steps; step-- > 0;) {
      const int32_t from = of.source[step], to = of.target[step];
      gain_after[from] +=
          ShareOf(after[to] + worth[step], after[from]) * (gain_after[to] + gained[step]);
    }
    for (int64_t cell = 0; cell < num_cells; ++cell) share[cell] = slope[cell] = 0;
    for (int64_t step = 0; step < of.num_steps; ++step) {
      const int32_t from = of.source[step], to = of.target[step];
      const double taken = ShareOf(before[from] + worth[step] + after[to], before[last]);
      const double more = gain_before[from] + gained[step] + gain_after[to] - gain_before[last];
      for (int64_t at = of.offsets[step]; at < of.offsets[step + 1]; ++at) {
        share[of.cells[at]] += taken;
        slope[of.cells[at]] += taken * more;
      }
    }
    totals[0] = before[last];
    totals[1] = gain_before[last];
    return 0;
  });
}

// What compiled.py compares with what it knows.
const char *lattices_description() noexcept {
  static const std::string text = Interface()
                                      .Struct<PathsViewFields>()
                                      .Struct<TableViewFields>()
                                      .Function(NAMED(lattices_expect))
                                      .Function(NAMED(lattices_expected_errors))
                                      .text();
  return text.c_str();
}

}  // extern "C"
