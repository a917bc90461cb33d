// Memory for vectors, all zeros at first.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

struct Free {
  void operator()(void *p) const { std::free(p); }
};

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t count) {
    const size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
    data_.reset(static_cast<T *>(std::aligned_alloc(64, bytes ? bytes : 64)));
    if (!data_) throw std::bad_alloc();
    std::memset(data_.get(), 0, bytes);
  }
  T *get() const { return data_.get(); }

 private:
  std::unique_ptr<T[], Free> data_;
};
