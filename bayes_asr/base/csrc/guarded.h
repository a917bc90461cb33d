// Exceptions end where Python begins: one that left a library would end the process.

#pragma once

#include <utility>

// What `work` returns, or `failed` where memory is short or a size is one that nothing has.  Every
// function of a library that can throw is one call of this.
template <class Result, class Work>
Result Guarded(Result failed, Work work) {
  try {
    return work();
  } catch (...) {  // containers throw nothing but bad_alloc and length_error
    return failed;
  }
}
