// The threads of one call.  They are OpenMP's where Python has handed over the functions of
// torch's own runtime: threads beside those would compete with them, since they spin for a while
// after each product.  Otherwise, and in a forked process, where OpenMP's are gone, they are made
// for the call.

#pragma once

#include <unistd.h>

#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "../../../../base/csrc/wait.h"

struct OpenMp {
  void (*parallel)(void (*)(void *), void *, unsigned threads, unsigned flags);
  int (*size)();
  pid_t process;
};

extern OpenMp openmp;  // null pointers: none

class Team {
 public:
  explicit Team(int wanted) : wanted_(wanted) {}

  // Call body(thread, threads) in each thread; fewer than wanted where the system has no more.
  template <class Body>
  void Run(Body &body) {
    if (wanted_ > 1 && openmp.parallel && openmp.process == getpid()) {
      Share<Body> share{*this, body};
      openmp.parallel(Share<Body>::Take, &share, wanted_, 0);
    } else {
      RunInOwnThreads(body);
    }
  }

  // Wait until all threads are here.
  void Meet() {
    const int size = size_.load(std::memory_order_relaxed);
    if (size == 1) return;
    const unsigned round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size - 1) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
    } else {
      WaitUntil([this, round] { return round_.load(std::memory_order_acquire) != round; });
    }
  }

 private:
  template <class Body>
  struct Share {
    Team &team;
    Body &body;
    static void Take(void *self) {
      Share &share = *static_cast<Share *>(self);
      const int size = openmp.size();
      share.team.size_.store(size, std::memory_order_relaxed);
      share.body(share.team.number_.fetch_add(1, std::memory_order_relaxed), size);
    }
  };

  template <class Body>
  void RunInOwnThreads(Body &body) {
    std::vector<std::thread> others;
    try {
      others.reserve(wanted_ - 1);
      while (static_cast<int>(others.size()) < wanted_ - 1) {
        const int number = static_cast<int>(others.size()) + 1;
        others.emplace_back([this, number, &body] {
          WaitUntil([this] { return size_.load(std::memory_order_acquire) > 0; });
          body(number, size_.load(std::memory_order_relaxed));
        });
      }
    } catch (const std::system_error &) {
    } catch (const std::bad_alloc &) {
    }
    size_.store(static_cast<int>(others.size()) + 1, std::memory_order_release);
    body(0, size_.load(std::memory_order_relaxed));
    for (std::thread &other : others) other.join();
  }

  const int wanted_;
  std::atomic<int> size_{0}, number_{0}, arrived_{0};
  std::atomic<unsigned> round_{0};
};
