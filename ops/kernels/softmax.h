// Softmax, log-softmax and log-sum-exp over one axis, and their backward kernels. Not for: attention (its fused kernel
// keeps its own row statistics).
//
// x, y, dy have one dtype (f32 or f64) and one shape; inputs may have any strides, outputs are row-major. `axis` is in
// [0, rank). An axis of length 0 does nothing.
#pragma once

#include <capstan/autograd/view.h>

namespace capstan::kernels {

/// y = exp(x − max x) / Σ exp(x − max x). An entry of −∞ gives exactly 0. A row that is −∞ throughout, or that holds +∞
/// or NaN, becomes NaN throughout (+∞ has no meaningful weight; PyTorch says the same).
void softmax(ConstView x, int axis, View y);

/// The same over the elements where `keep` (bool, x's shape, any strides) is true: 0 elsewhere, whatever stands there, and
/// 0 in a row where it is true nowhere.
void masked_softmax(ConstView x, ConstView keep, int axis, View y);

/// y = (x − max x) − log Σ exp(x − max x). An entry of −∞ stays −∞; NaN rows as in softmax.
void log_softmax(ConstView x, int axis, View y);

/// dx = y ⊙ (dy − Σ dy ⊙ y), y being softmax(x).
void softmax_backward(ConstView y, ConstView dy, int axis, View dx);

/// The same where `keep` is true, the sum over these elements only; 0 elsewhere. y being masked_softmax(x, keep).
void masked_softmax_backward(ConstView y, ConstView keep, ConstView dy, int axis, View dx);

/// dx = dy − exp(y) · Σ dy, y being log_softmax(x).
void log_softmax_backward(ConstView y, ConstView dy, int axis, View dx);

/// y = max x + log Σ exp(x − max x), one for each row along `axis`, in row-major order. A row of −∞, or of no elements,
/// gives −∞; one with +∞ gives +∞; one with NaN, NaN.
void logsumexp(ConstView x, int axis, View y);

/// dx = dy · softmax(x), and 0 where y is −∞. y and dy have x's shape with size 1 along `axis`.
void logsumexp_backward(ConstView x, ConstView y, ConstView dy, int axis, View dx);

}  // namespace capstan::kernels
