// The row loops of cross-entropy, on SIMD. Not for: users (cross_entropy.h).
#pragma once

#include <capstan/autograd/shape.h>

namespace capstan::kernels {

/// What a row's loss is made of, relative to its largest logit: max x, Σ exp(x − max), and, only if wanted, Σ (x − max).
struct RowTerms {
  double largest, sum_exp, sum;
};

template <class T>
struct CrossEntropyRows {
  RowTerms (*terms)(const T* x, Index count, bool with_sum);
  /// dx = scale · (softmax(x) − uniform); the target's entry is put right by the caller.
  void (*gradient)(const T* x, T* dx, Index count, double scale, double uniform);
};

CrossEntropyRows<float> cross_entropy_rows(float);
CrossEntropyRows<double> cross_entropy_rows(double);

}  // namespace capstan::kernels
