// RMS normalisation over the last axis. Not for: other axes, the module (nn/rms_norm.h), means taken away (layer_norm.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// y = x · rstd · weight over the last axis C, with rstd = 1/√(Σx²/C + eps) (Zhang and Sennrich 2019, eq. 4).
/// x [..., C]; weight [C], optional (an empty Tensor: 1); f32 or f64, the same for both.
/// rms_norm(tensor({1, 2, 3, 4})) = [0.3651482, 0.7302964, 1.0954446, 1.4605928].
/// Squares are of x's dtype: rows with elements beyond about 1.8e19 / √C in f32, 1.3e154 / √C in f64 overflow, and give y = 0
/// and dx = 0; with eps 0, elements below about 1e-19 (1e-154) lose their digits and then are 0, and a row of zeros is
/// 0 · ∞ = NaN.
/// Errors: x is a scalar or has an empty last axis; weight is not [C]; dtypes differ; eps is negative.
Tensor rms_norm(const Tensor& x, const Tensor& weight = Tensor(), double eps = 1e-5);

/// All outputs of the op: y [..., C] and the statistic that backward reads, rstd [...], differentiable like any other.
struct RmsNormOutputs {
  Tensor y;
  Tensor rstd;
};
RmsNormOutputs rms_norm_outputs(const Tensor& x, const Tensor& weight = Tensor(), double eps = 1e-5);

}  // namespace capstan
