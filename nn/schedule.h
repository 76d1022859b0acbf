// The learning rate as a function of the step. Not for: what the optimiser does with it (optim.h; set `lr` before a step).
#pragma once

#include <capstan/autograd/shape.h>

namespace capstan::nn {

/// Linear warm-up, then half a cosine (Loshchilov & Hutter 2017, equation 5, without restarts). Steps count from 1:
///
///   rate(s) = peak · s / warmup                                                              s ≤ warmup
///   rate(s) = lowest + (peak − lowest) / 2 · (1 + cos(π (s − warmup) / (steps − warmup)))    warmup < s ≤ steps
///   rate(s) = lowest                                                                         s > steps
struct CosineWithWarmup {
  double peak = 0;
  double lowest = 0;
  Index warmup = 0;
  Index steps = 0;

  /// The rate of step s. Example: peak 1, lowest 0, warmup 2, steps 6 → 0.5, 1, 0.854, 0.5, 0.146, 0. Step 0, before the
  /// first one, has 0, or peak if there is no warm-up.
  double operator()(Index step) const;
};

}  // namespace capstan::nn
