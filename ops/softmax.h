// Softmax and its logarithm over one axis. Not for: rows with nothing to attend to (attention.h), losses (cross_entropy.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// y = exp(x) / Σ exp(x) over `axis` (negative: from the end), computed as exp(x − max x) / Σ exp(x − max x). An entry of
/// −∞ gives exactly 0. A row that is −∞ throughout, or that holds +∞ or NaN, is NaN throughout: +∞ has no meaningful
/// weight, and attention, which promises 0 for rows without keys, does not pass such rows here.
/// f32 or f64, any shape of at least one axis. softmax(tensor({0, 1})) = [0.26894143, 0.73105858].
/// Errors: x is not a float; axis outside x.
Tensor softmax(const Tensor& x, int axis = -1);

/// y = x − log Σ exp(x) over `axis`, without ever forming the logarithm of a small number. An entry of −∞ stays −∞; rows
/// that are NaN as in softmax. log_softmax(tensor({0.1, 0.9})) = [−1.17110067, −0.37110067].
/// Errors: as softmax.
Tensor log_softmax(const Tensor& x, int axis = -1);

}  // namespace capstan
