// Recurrences, products and losses for one instruction set.  A file that includes this has set, for
// what follows, LANES (floats in a vector), ROWS (rows whose sums fit into the registers) and the
// instruction set; PATH names the result.  Everything is in a namespace of its own, so that no
// function compiled for one instruction set stands in for that of another.

namespace {

constexpr int kRows = ROWS;

#include "vector.h"
#include "product.h"
#include "dense.h"
#include "tiles.h"
#include "loss.h"
#include "cells.h"
#include "sweep.h"
#include "forward.h"
#include "backward.h"

// Call run(Store) for the way of storing; false where memory does not suffice.
template <class Run>
bool WithStorage(int64_t storage, Run run) {
  try {
    if (storage == kBfloat16) {
      run(Bfloat16());
    } else {
      run(Float32());
    }
  } catch (const std::bad_alloc &) {
    return false;
  }
  return true;
}

bool RunForward(const Job &job) {
  return WithStorage(job.storage, [&](auto store) { Forward<decltype(store)>(job).Run(); });
}

bool RunBackward(const Job &job) {
  return WithStorage(job.storage, [&](auto store) { Backward<decltype(store)>(job).Run(); });
}

bool RunProduct(const Product &product) {
  return WithStorage(product.storage,
                     [&](auto store) { Dense<decltype(store)>::Run(product); });
}

bool RunCrossEntropy(const CrossEntropy &job) {
  return WithStorage(job.storage, [&](auto store) { Loss<decltype(store)>(job).Run(); });
}

}  // namespace

const Path PATH = {RunForward, RunBackward, RunProduct, RunCrossEntropy};
