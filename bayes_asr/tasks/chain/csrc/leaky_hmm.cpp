// Sums over all paths of a leaky HMM, frame by frame in the probability domain, in double precision.
// The notation is that of version 3 in Kaldi's chain/chain-denominator.h: "dashed" values have the
// leak added.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "../../../base/csrc/guarded.h"
#include "../../../base/csrc/interface.h"

extern "C" {

// Arcs twice: those into state s are into_*[into_offsets[s]] .. into_*[into_offsets[s + 1]], those
// out of it likewise.  A state at the other end, a pdf that is emitted, a probability.
struct HmmView {
  int64_t num_states;
  int64_t num_pdfs;
  const int64_t *into_offsets;
  const int32_t *into_source;
  const int32_t *into_pdf;
  const double *into_prob;
  const int64_t *from_offsets;
  const int32_t *from_target;
  const int32_t *from_pdf;
  const double *from_prob;
  const double *initial;
};
DESCRIBE(HmmView, num_states, num_pdfs, into_offsets, into_source, into_pdf, into_prob,
         from_offsets, from_target, from_pdf, from_prob, initial);

}  // extern "C"

namespace {

double Sum(const double *values, int64_t count) {
  return std::accumulate(values, values + count, 0.0);
}

// One utterance.  The likelihoods of a frame are divided by their largest, so that nothing
// overflows, and what is not small against it does not underflow.
class Utterance {
 public:
  Utterance(const HmmView &hmm, int64_t frames, const double *scores, double leak)
      : hmm_(hmm), frames_(frames), leak_(leak), likelihood_(frames * hmm.num_pdfs),
        dashed_((frames + 1) * hmm.num_states), total_(frames + 1) {
    for (int64_t t = 0; t < frames; ++t) {
      const double *row = scores + t * hmm.num_pdfs;
      const double most = *std::max_element(row, row + hmm.num_pdfs);
      for (int64_t pdf = 0; pdf < hmm.num_pdfs; ++pdf)
        likelihood_[t * hmm.num_pdfs + pdf] = std::exp(row[pdf] - most);
      log_scale_ += most;
    }
  }

  // The log of the sum of all paths; minus infinity, or not a number, where there is none.
  double Forward() {
    std::copy(hmm_.initial, hmm_.initial + hmm_.num_states, &dashed_[0]);
    Leak(0);
    for (int64_t t = 0; t < frames_; ++t) {
      const double *before = &dashed_[t * hmm_.num_states];
      const double *likelihood = &likelihood_[t * hmm_.num_pdfs];
      for (int64_t state = 0; state < hmm_.num_states; ++state) {
        double sum = 0;
        for (int64_t arc = hmm_.into_offsets[state]; arc < hmm_.into_offsets[state + 1]; ++arc)
          sum += before[hmm_.into_source[arc]] * hmm_.into_prob[arc] *
                 likelihood[hmm_.into_pdf[arc]];
        dashed_[(t + 1) * hmm_.num_states + state] = sum / total_[t];
      }
      log_scale_ += std::log(total_[t]);
      Leak(t + 1);
    }
    end_ = Sum(&dashed_[frames_ * hmm_.num_states], hmm_.num_states);
    return std::log(end_) + log_scale_;
  }

  // Adds to `share` the derivatives of that by the scores.
  void Backward(double *share) const {
    std::vector<double> after(hmm_.num_states, 1 / end_), here(hmm_.num_states);
    LeakBack(&after);
    for (int64_t t = frames_; t-- > 0;) {
      const double *dashed = &dashed_[t * hmm_.num_states];
      const double *likelihood = &likelihood_[t * hmm_.num_pdfs];
      double *shares = share + t * hmm_.num_pdfs;
      for (int64_t state = 0; state < hmm_.num_states; ++state) {
        const double reached = dashed[state] / total_[t];
        double sum = 0;
        for (int64_t arc = hmm_.from_offsets[state]; arc < hmm_.from_offsets[state + 1]; ++arc) {
          const int32_t pdf = hmm_.from_pdf[arc];
          const double onward =
              hmm_.from_prob[arc] * likelihood[pdf] * after[hmm_.from_target[arc]];
          sum += onward;
          shares[pdf] += onward * reached;
        }
        here[state] = sum / total_[t];
      }
      after.swap(here);
      LeakBack(&after);
    }
  }

 private:
  // Every state leaks to all, by their initial probabilities.
  void Leak(int64_t t) {
    double *alpha = &dashed_[t * hmm_.num_states];
    total_[t] = Sum(alpha, hmm_.num_states);
    for (int64_t state = 0; state < hmm_.num_states; ++state)
      alpha[state] += leak_ * total_[t] * hmm_.initial[state];
  }

  void LeakBack(std::vector<double> *beta) const {
    double leaked = 0;
    for (int64_t state = 0; state < hmm_.num_states; ++state)
      leaked += leak_ * hmm_.initial[state] * (*beta)[state];
    for (double &value : *beta) value += leaked;
  }

  const HmmView &hmm_;
  const int64_t frames_;
  const double leak_;
  std::vector<double> likelihood_, dashed_, total_;
  double log_scale_ = 0, end_ = 0;
};

}  // namespace

extern "C" {

// scores [T, P]: log-likelihoods of pdfs.  Writes the log of the sum of all paths, and adds to share
// [T, P] its derivatives, unless that is not finite.  Returns 0, or -1 if memory is short.
int32_t chain_sum_paths(const HmmView *hmm, int64_t frames, const double *scores, double leak,
                        double *share, double *log_total) {
  return Guarded<int32_t>(-1, [&] {
    Utterance utterance(*hmm, frames, scores, leak);
    *log_total = utterance.Forward();
    if (std::isfinite(*log_total)) utterance.Backward(share);
    return 0;
  });
}

// Description that compiled.py compares with its own.
const char *chain_description() noexcept {
  static const std::string text =
      Interface().Struct<HmmViewFields>().Function(NAMED(chain_sum_paths)).text();
  return text.c_str();
}

}  // extern "C"
