// Recurrences, products and losses for one instruction set.

#pragma once

#include "backward.h"
#include "common.h"
#include "dense.h"
#include "forward.h"
#include "loss.h"

namespace {

// Call run(Store) for the way of storing.
template <class Run>
void WithStorage(int64_t storage, Run run) {
  if (storage == kBfloat16) {
    run(Bfloat16());
  } else {
    run(Float32());
  }
}

void RunForward(const Job &job) {
  WithStorage(job.storage, [&](auto store) { Forward<decltype(store)>(job).Run(); });
}

void RunBackward(const Job &job) {
  WithStorage(job.storage, [&](auto store) { Backward<decltype(store)>(job).Run(); });
}

void RunProduct(const Product &product) {
  WithStorage(product.storage, [&](auto store) { Dense<decltype(store)>::Run(product); });
}

void RunCrossEntropy(const CrossEntropyJob &job) {
  WithStorage(job.storage, [&](auto store) { Loss<decltype(store)>(job).Run(); });
}

}  // namespace

const Path PATH = {RunForward, RunBackward, RunProduct, RunCrossEntropy};
