// Processes of one machine that wait for one another, by counters in memory which all see.

#include <atomic>
#include <chrono>
#include <cstdint>

#include "wait.h"

namespace {

struct alignas(64) Arrivals {  // of one process, in a cache line of its own
  std::atomic<int64_t> count;
};

}  // namespace

extern "C" {

// Say that process `rank` has arrived `count` times, and wait until all have: 1, or 0 where
// `seconds` did not suffice.
int64_t recurrence_meet(Arrivals *processes, int64_t size, int64_t rank, int64_t count,
                        double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  processes[rank].count.store(count, std::memory_order_release);
  int64_t here = 0;  // the first so many processes
  WaitUntil([&] {
    while (here < size && processes[here].count.load(std::memory_order_acquire) >= count) ++here;
    return here == size || Clock::now() >= end;
  });
  return here == size;
}

}  // extern "C"
