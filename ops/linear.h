// The affine map of a layer, with its weight as it is stored. Not for: general products (matmul.h), modules (nn/linear.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// y = x Wᵀ + b: x [..., K], weight [N, K], bias [N] (or none) → y [..., N]; y_n = Σ_k x_k W_nk + b_n.
/// f32 or f64, the same for all. linear(tensor({1, 2}), tensor({{3, 4}}), tensor({5})) = [16].
/// Errors: x is a scalar; weight is not 2-D; K or N do not agree; dtypes differ or are not floats.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = Tensor());

}  // namespace capstan
