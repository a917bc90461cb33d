// Recurrences, products and losses for one instruction set.

#pragma once

#include "backward.h"
#include "common.h"
#include "dense.h"
#include "forward.h"
#include "loss.h"

namespace {

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

bool RunCrossEntropy(const CrossEntropyJob &job) {
  return WithStorage(job.storage, [&](auto store) { Loss<decltype(store)>(job).Run(); });
}

}  // namespace

const Path PATH = {RunForward, RunBackward, RunProduct, RunCrossEntropy};
