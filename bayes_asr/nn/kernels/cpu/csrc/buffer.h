// Memory for vectors.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

struct Free {
  void operator()(void *p) const { std::free(p); }
};

enum Contents { kZeros, kUnset };

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t count, Contents contents = kZeros) {
    const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    data_.reset(static_cast<T *>(std::aligned_alloc(64, bytes ? bytes : 64)));
    if (!data_) throw std::bad_alloc();
    if (contents == kZeros) std::memset(data_.get(), 0, bytes);
  }
  T *get() const { return data_.get(); }

 private:
  std::unique_ptr<T[], Free> data_;
};
