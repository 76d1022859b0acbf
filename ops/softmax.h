// Softmax, its logarithm and log-sum-exp over one axis. Not for: losses (cross_entropy.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// y = exp(x) / Σ exp(x) over `axis` (negative: from the end), computed as exp(x − max x) / Σ exp(x − max x). An entry of
/// −∞ gives exactly 0. A row that is −∞ throughout, or that holds +∞ or NaN, is NaN throughout: +∞ has no meaningful
/// weight. For rows that may have nothing to choose from: masked_softmax.
/// f32 or f64, any shape of at least one axis. softmax(tensor({0, 1})) = [0.26894143, 0.73105858].
/// Errors: x is not a float; axis outside x.
Tensor softmax(const Tensor& x, int axis = -1);

/// The softmax of those elements of each row where keep is true, and 0 elsewhere; a row where keep is true nowhere is 0
/// throughout. What stands where it is false, NaN and infinities too, reaches neither y nor a gradient, and the cotangent
/// there reaches nothing.   dx = y ⊙ (dy − Σ dy ⊙ y), sum and result where keep is true.
/// keep: bool, broadcasting to x.   masked_softmax(x, x < 5.0) of x = [0, 1, 9] is
/// [0.26894143, 0.73105858, 0].
/// Errors: as softmax; keep is not bool, or does not broadcast to x's shape.
Tensor masked_softmax(const Tensor& x, const Tensor& keep, int axis = -1);

/// y = x − log Σ exp(x) over `axis`, without ever forming the logarithm of a small number. An entry of −∞ stays −∞; rows
/// that are NaN as in softmax. log_softmax(tensor({0.1, 0.9})) = [−1.17110067, −0.37110067].
/// Errors: as softmax.
Tensor log_softmax(const Tensor& x, int axis = -1);

/// y = log Σ exp(x) over `axis`, computed as max x + log Σ exp(x − max x): nothing overflows. The axis vanishes, or
/// stays with size 1 (keep).   dx = dy ⊙ softmax(x).   f32 or f64.   logsumexp(tensor({0, 1})) = 1.3132617.
/// A row that is −∞ throughout (or empty) is −∞ with gradient 0. A row with +∞ is +∞, and its gradient, like its
/// softmax, is NaN. NaN stays NaN. Errors: as softmax.
Tensor logsumexp(const Tensor& x, int axis = -1, bool keep = false);

}  // namespace capstan
