// Cross entropy, its gradient and the errors in one pass over the outputs.

#pragma once

#include "vector.h"

namespace {

template <class Store>
class Loss {
 public:
  explicit Loss(const CrossEntropyJob &job)
      : job_(job),
        width_((job.outputs + LANES - 1) / LANES * LANES),
        exps_(job.threads * width_, kUnset),
        team_(static_cast<int>(job.threads)) {}

  void Run() { team_.Run(*this); }

  // The share of one thread.
  void operator()(int thread, int threads) {
    float *exps = exps_.get() + thread * width_;
    const int64_t behind = job_.rows * (thread + 1) / threads;
    for (int64_t row = job_.rows * thread / threads; row < behind; ++row) Row(row, exps);
  }

 private:
  using Number = typename Store::Number;

  void Row(int64_t row, float *exps) const {
    const Number *logits = static_cast<const Number *>(job_.logits) + row * job_.outputs;
    const int64_t label = job_.labels[row];
    const float largest = Largest(logits), wanted = Store::Load(logits + label, 1)[0];
    Vec sums{};
    float sum = 0.0f;
    for (int64_t i = 0; i < job_.outputs; i += LANES) {
      const Vec x = Some(logits + i, job_.outputs - i, -INFINITY) - largest;
      const Vec exp = x < -87.33f ? Vec{} : Exp(x);  // which is never 0
      StoreSome(exps + i, exp, LANES);
      sums += exp;
    }
    for (int lane = 0; lane < LANES; ++lane) sum += sums[lane];
    job_.losses[row] = std::log(sum) + (largest - wanted);
    job_.wrong[row] = !(wanted == largest) || ComesBefore(logits, label, largest);
    if (job_.gradient) Gradient(row, label, exps, static_cast<float>(job_.scale), sum);
  }

  void Gradient(int64_t row, int64_t label, float *exps, float scale, float sum) const {
    Number *gradient = static_cast<Number *>(job_.gradient) + row * job_.outputs;
    const float factor = scale / sum;
    exps[label] -= sum;
    for (int64_t i = 0; i < job_.outputs; i += LANES) {
      Store::Store(gradient + i, LoadSome<Vec>(exps + i, LANES) * factor, job_.outputs - i);
    }
  }

  float Largest(const Number *logits) const {
    Vec largest = Vec{} - INFINITY;
    for (int64_t i = 0; i < job_.outputs; i += LANES) {
      const Vec x = Some(logits + i, job_.outputs - i, -INFINITY);
      largest = x > largest ? x : largest;
    }
    float found = largest[0];
    for (int lane = 1; lane < LANES; ++lane) found = std::max(found, largest[lane]);
    return found;
  }

  // Whether an output before that of the label is the largest too.
  static bool ComesBefore(const Number *logits, int64_t label, float largest) {
    Int found{};
    for (int64_t i = 0; i < label; i += LANES) {
      found |= Some(logits + i, label - i, -INFINITY) == largest;
    }
    int any = 0;
    for (int lane = 0; lane < LANES; ++lane) any |= found[lane];
    return any;
  }

  // A vector whose lanes from `count` on hold `other`.
  static Vec Some(const Number *from, int64_t count, float other) {
    Vec x = Store::Load(from, count);
    for (int64_t lane = count; lane < LANES; ++lane) x[lane] = other;
    return x;
  }

  const CrossEntropyJob &job_;
  const int64_t width_;
  Buffer<float> exps_;  // [threads, width]
  Team team_;
};

}  // namespace
