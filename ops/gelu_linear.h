// The second half of a transformer's feed-forward part as one op. Not for: activations by themselves (activation.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// y = gelu_tanh(x) Wᵀ + b: x [..., K], weight [N, K], bias [N] (or none) → y [..., N], f32 or f64, the same for all.
/// Equals linear(gelu_tanh(x), weight, bias), but keeps x alone until backward, not gelu_tanh(x) beside it: x is often
/// the widest tensor of a model. Backward makes it anew, with its slope, from one sigmoid.
/// gelu_linear(tensor({1, -6}), tensor({{2, 1}}), tensor({5})) = [6.6823840].
/// Errors: as linear's.
Tensor gelu_linear(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor());

}  // namespace capstan
