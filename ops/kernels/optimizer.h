// Fused optimiser steps on dense arrays, in PyTorch's arithmetic. Not for: schedules, parameter walks, state (nn/optim).
#pragma once

#include <capstan/autograd/shape.h>

namespace capstan::kernels {

struct AdamWStep {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  /// 1 for the first step.
  Index step = 1;
};

/// Decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), for each of n elements:
///   p ← p · (1 − lr · weight_decay);  m ← m + (1 − β₁)(g − m);  v ← β₂ v + (1 − β₂) g²
///   p ← p − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + eps)
/// p, m, v are updated in place; none of the four overlap.
void adamw(Index n, float* p, const float* g, float* m, float* v, const AdamWStep& options);
void adamw(Index n, double* p, const double* g, double* m, double* v, const AdamWStep& options);

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
void sgd(Index n, float* p, const float* g, float* buffer, const SgdStep& options);
void sgd(Index n, double* p, const double* g, double* buffer, const SgdStep& options);

}  // namespace capstan::kernels
