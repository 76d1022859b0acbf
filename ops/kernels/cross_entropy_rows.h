// The row loops of cross-entropy, on SIMD. Not for: users (cross_entropy.h).
#pragma once

#include <capstan/autograd/shape.h>

namespace capstan::kernels {

/// What a row's loss is made of, relative to its largest logit: max x, Σ exp(x − max), and, only if wanted, Σ w (x − max)
/// over the classes whose weight is not 0.
struct RowTerms {
  double largest, sum_exp, sum;
};

/// Weights w are dense, or null for 1.
template <class T>
struct CrossEntropyRows {
  RowTerms (*terms)(const T* x, const T* weights, Index count, bool with_sum);
  /// dx = scale · (total · softmax(x) − uniform · w), which may be written over x; the target's entry is put right by
  /// the caller. Returns the terms, the sum if `uniform` is not 0.
  RowTerms (*gradient)(const T* x, const T* weights, T* dx, Index count, double scale, double total, double uniform);
};

CrossEntropyRows<float> cross_entropy_rows(float);
CrossEntropyRows<double> cross_entropy_rows(double);

}  // namespace capstan::kernels
