// The recurrences for one instruction set.  A file that includes this has set, for what follows,
// LANES (floats in a vector), ROWS (rows whose sums fit into the registers) and the instruction
// set; PATH names the result.  Everything is in a namespace of its own, so that no function
// compiled for one instruction set stands in for that of another.

namespace {

constexpr int kRows = ROWS;

#include "vector.h"
#include "product.h"
#include "tiles.h"
#include "cells.h"
#include "sweep.h"
#include "forward.h"
#include "backward.h"

template <template <class> class Way>
bool Run(const Job &job) {
  try {
    if (job.storage == kBfloat16) {
      Way<Bfloat16>(job).Run();
    } else {
      Way<Float32>(job).Run();
    }
  } catch (const std::bad_alloc &) {
    return false;
  }
  return true;
}

}  // namespace

const Path PATH = {Run<Forward>, Run<Backward>};
