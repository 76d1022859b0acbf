// Layer normalisation over the last axis, by itself and after a residual's addition. Not for: other axes, batch statistics, the module (nn/layer_norm.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// y = (x − mean) · rstd · weight + bias over the last axis C, with mean = Σx/C and rstd = 1/√(Σ(x − mean)²/C + eps)
/// (Ba, Kiros and Hinton 2016). x [..., C]; weight and bias [C], each optional (an empty Tensor: 1 and 0); f32 or f64, the
/// same for all. Two passes accumulated in f64: rows far from 0 lose nothing.
/// layer_norm(tensor({1, 2, 3, 4})) = [−1.3416354, −0.4472118, 0.4472118, 1.3416354].
/// Errors: x is a scalar or has an empty last axis; weight or bias is not [C]; dtypes differ; eps is negative.
Tensor layer_norm(const Tensor& x, const Tensor& weight = Tensor(), const Tensor& bias = Tensor(), double eps = 1e-5);

/// All outputs of the op: y [..., C] and the statistics that backward reads, mean [...] and rstd [...]. They can be
/// differentiated like any other output.
struct LayerNormOutputs {
  Tensor y;
  Tensor mean;
  Tensor rstd;
};
LayerNormOutputs layer_norm_outputs(const Tensor& x, const Tensor& weight = Tensor(), const Tensor& bias = Tensor(),
                                    double eps = 1e-5);

/// What a residual stream does before each layer: sum = x + r and y = layer_norm(sum, weight, bias, eps) in one pass over
/// memory, and one back. x and r [..., C], of one shape. The same bytes as the two ops.
/// add_layer_norm(tensor({0, 1}), tensor({1, 2})): sum = [1, 3], y = [−0.9999950, 0.9999950].
/// Errors: as layer_norm's; x and r differ in shape or dtype.
struct AddLayerNormOutputs {
  Tensor sum;
  Tensor y;
  Tensor mean;
  Tensor rstd;
};
AddLayerNormOutputs add_layer_norm(const Tensor& x, const Tensor& r, const Tensor& weight = Tensor(),
                                   const Tensor& bias = Tensor(), double eps = 1e-5);

}  // namespace capstan
