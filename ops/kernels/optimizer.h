// Fused optimiser steps on dense arrays, in PyTorch's arithmetic. Not for: schedules, parameter walks, state (nn/optim).
#pragma once

#include <capstan/autograd/shape.h>

namespace capstan::kernels {

// T is float or double. p, g and the state do not overlap; p and the state are updated in place.

struct AdamStep {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  /// false: AdamW's decay of the parameter; true: Adam's, as part of the gradient.
  bool decay_in_gradient = false;
  /// 1 for the first step.
  Index step = 1;
};

/// AdamW (Loshchilov and Hutter 2019, algorithm 2), for each of n elements:
///   p ← p · (1 − lr · weight_decay)   or, with decay_in_gradient,   g ← g + weight_decay · p
///   m ← m + (1 − β₁)(g − m);  v ← β₂ v + (1 − β₂) g²;  largest ← max(largest, v), if it is not null (amsgrad)
///   p ← p − lr / (1 − β₁ᵗ) · m / (√(v or largest) / √(1 − β₂ᵗ) + eps)
template <class T>
void adam(Index n, T* p, const T* g, T* m, T* v, T* largest, const AdamStep& options);

struct SgdStep {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  /// On the first step the momentum buffer becomes the gradient, without dampening.
  bool first = false;
};

/// g' = g + weight_decay · p. Without momentum p ← p − lr · g'. With it
///   buffer ← momentum · buffer + (1 − dampening) g'   (first step: buffer ← g')
///   p ← p − lr · (nesterov ? g' + momentum · buffer : buffer)
/// `buffer` is not touched (and may be null) if momentum is 0.
template <class T>
void sgd(Index n, T* p, const T* g, T* buffer, const SgdStep& options);

struct RmsPropStep {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
};

/// g ← g + weight_decay · p;  v ← alpha · v + (1 − alpha) g²;  average ← average + (1 − alpha)(g − average), if not null
///   d = g / (√(v − average²) + eps);  buffer ← momentum · buffer + d and d = buffer, if not null;  p ← p − lr · d
template <class T>
void rms_prop(Index n, T* p, const T* g, T* v, T* average, T* buffer, const RmsPropStep& options);

struct LionStep {
  double lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;
};

/// p ← p · (1 − lr · weight_decay) − lr · sign(β₁ m + (1 − β₁) g);  m ← β₂ m + (1 − β₂) g.   sign(0) = 0; NaN stays NaN.
template <class T>
void lion(Index n, T* p, const T* g, T* m, const LionStep& options);

}  // namespace capstan::kernels
