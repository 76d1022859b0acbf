// The row loops of layer norm and RMS norm, on SIMD. Not for: users (layer_norm.h).
#pragma once

#include <capstan/autograd/shape.h>

namespace capstan::kernels {

struct RowStatistics {
  double mean, rstd;
};

template <class T>
struct LayerNormRows {
  /// y of one dense row; weight and bias may be null. If r is not, it is x + r that is normalised, and kept in `sum`.
  RowStatistics (*forward)(const T* x, const T* r, const T* weight, const T* bias, double eps, T* sum, T* y,
                           Index count);
  /// dx of one dense row (null: not wanted), added to what it holds or not, and dweight and dbias added to `sums`
  /// [2, count] (null: not wanted).
  void (*backward)(const T* x, const T* dy, const T* weight, T mean, T rstd, T* dx, bool add_to_dx, double* sums,
                   Index count);
};

LayerNormRows<float> layer_norm_rows(float);
LayerNormRows<double> layer_norm_rows(double);
/// The same about 0 in place of the mean, which is then neither read nor returned; the second row of `sums` stays as it is.
LayerNormRows<float> rms_norm_rows(float);
LayerNormRows<double> rms_norm_rows(double);

}  // namespace capstan::kernels
