// Processes of one machine that wait for one another, by counters in memory which all see.

#include <atomic>
#include <chrono>

#include "../../csrc/interface.h"
#include "../../csrc/wait.h"

struct alignas(64) Arrivals {
  std::atomic<int64_t> count, left;
};

namespace {

static_assert(sizeof(Arrivals) == 64 && std::atomic<int64_t>::is_always_lock_free, "");

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kSoon(5);  // others are rarely later, unless they write or read
constexpr std::chrono::microseconds kPause(50);

}  // namespace

extern "C" {

enum Met : int64_t { kOneHasLeft = -1, kNotYet, kAllHere };

// Say that process `rank` has arrived `count` times, and wait until all have, at most `seconds`.
int64_t barrier_meet(Arrivals *processes, int64_t size, int64_t rank, int64_t count,
                     double seconds) noexcept {
  const auto start = Clock::now();
  processes[rank].count.store(count, std::memory_order_release);
  int64_t here = 0;  // the first so many processes
  bool left = false;
  const auto known = [&] {
    while (here < size && processes[here].count.load(std::memory_order_acquire) >= count) ++here;
    // Who has left arrives no more; what it did before is seen with that.
    left = here < size && processes[here].left.load(std::memory_order_acquire) &&
           processes[here].count.load(std::memory_order_acquire) < count;
    return here == size || left;
  };
  WaitUntil([&] { return known() || Clock::now() - start >= kSoon; });
  while (!known() && Clock::now() - start < std::chrono::duration<double>(seconds)) {
    std::this_thread::sleep_for(kPause);
  }
  return here == size ? kAllHere : left ? kOneHasLeft : kNotYet;
}

// Say that process `rank` will not arrive again.
void barrier_leave(Arrivals *processes, int64_t rank) noexcept {
  processes[rank].left.store(1, std::memory_order_release);
}

// What shared_memory.py compares with what it knows.
const char *barrier_description() noexcept {
  static const std::string text =
      Interface().Function(NAMED(barrier_meet)).Function(NAMED(barrier_leave)).text();
  return text.c_str();
}

}  // extern "C"
