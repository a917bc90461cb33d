// Dropout masks, which dropout.py describes.

#include <cstring>

#include "kernels.h"

namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio

// Splitmix64 (Steele, Lea & Flood 2014), but for its last step, which leaves the first bits alone.
inline uint64_t Mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  return (x ^ (x >> 27)) * 0x94d049bb133111eb;
}

}  // namespace

extern "C" {

// mask [sequences, size]: 1 where the first 24 bits of a hash are at least `least`, otherwise 0.
// first: position of the first number.
void kernels_keep_mask(const uint64_t *keys, int64_t sequences, uint64_t first, int64_t size,
                       uint64_t least, float *mask) noexcept {
  // By their bits, since GCC makes a branch of a bool that becomes a float, which nobody foresees.
  constexpr uint32_t kOne = 0x3f800000;
  for (int64_t b = 0; b < sequences; ++b) {
    for (int64_t i = 0; i < size; ++i, ++mask) {
      const uint32_t kept = Mixed(keys[b] + kGolden * (first + i)) >> 40 >= least;
      const uint32_t bits = -kept & kOne;
      std::memcpy(mask, &bits, sizeof bits);
    }
  }
}

}  // extern "C"
