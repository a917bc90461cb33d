// Which tokens are extended.

#include "search.h"

namespace search {

Cutoff ChooseCutoff(const std::vector<float> &cost, const OptionsView &options,
                    std::vector<float> *scratch) {
  const float best = *std::min_element(cost.begin(), cost.end());
  const float cutoff = best + options.beam;
  if (options.max_active == kUnlimited && options.min_active == 0) return {cutoff, options.beam};
  int64_t below = 0, within = 0;  // the beam; only if these counts say so are costs ordered
  for (const float one : cost) {
    below += one < cutoff;
    within += one <= cutoff;
  }
  auto nth = [&](int32_t n) {
    scratch->assign(cost.begin(), cost.end());
    std::nth_element(scratch->begin(), scratch->begin() + n, scratch->end());
    return (*scratch)[n];
  };
  if (below > options.max_active) {
    const float tighter = nth(options.max_active);
    return {tighter, (tighter - best) + options.beam_delta};
  }
  if (within <= options.min_active) {
    const bool enough = static_cast<int64_t>(cost.size()) > options.min_active;
    const float looser = enough ? nth(options.min_active) : kInfinity;
    return {looser, (looser - best) + options.beam_delta};
  }
  return {cutoff, options.beam};
}

}  // namespace search
