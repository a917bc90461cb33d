// Waiting for other threads and processes, which takes microseconds where each has a core.

#pragma once

#include <thread>

template <class Condition>
void WaitUntil(Condition condition) {
  constexpr int kSpins = 5000;  // for tens of us, after which others may want the core more
  for (int i = 0; !condition(); ++i) {
    if (i > kSpins) {
      std::this_thread::yield();
    } else {
#ifdef __x86_64__
      __builtin_ia32_pause();
#endif
    }
  }
}
