// The learning rate as a function of the step. Not for: stopping; what a run's clock says never changes a rate.
#pragma once

#include <cstdint>

namespace capstan::train_gpt {

/// Linear warm-up, then half a cosine (Loshchilov & Hutter 2017, equation 5, without restarts). Steps count from 1:
///
///   rate(s) = peak · s / warmup                                                              s ≤ warmup
///   rate(s) = lowest + (peak − lowest) / 2 · (1 + cos(π (s − warmup) / (steps − warmup)))    warmup < s ≤ steps
///   rate(s) = lowest                                                                         s > steps
struct Schedule {
  double peak = 0;
  double lowest = 0;
  std::int64_t warmup = 0;
  std::int64_t steps = 0;

  /// The rate of step s ≥ 1. Example: peak 1, lowest 0, warmup 2, steps 6 → 0.5, 1, 0.854, 0.5, 0.146, 0.
  double operator()(std::int64_t step) const;
};

}  // namespace capstan::train_gpt
