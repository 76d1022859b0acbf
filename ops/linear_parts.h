// What affine maps share: their type rule, and their products on tensors. Internal to the ops layer.
#pragma once

#include <capstan/autograd/op.h>

namespace capstan::ops {

/// x [..., K], weight [N, K], bias [N] (if there are three inputs) → y [..., N], one float dtype; Errors name `op`.
Types infer_affine(std::string_view op, Inputs in);

/// All rows of x below each other, [M, K]; a copy only if x's strides have no such form.
Tensor rows_of(const Tensor& x);

/// y = x Wᵀ + bias for x [M, K]; an empty bias: none.
void affine_map(const Tensor& x, const Tensor& weight, const Tensor& bias, const View& y);

/// c = a b or aᵀ b of matrices, or c += that; c is row-major, whatever its shape.
void product(const Tensor& a, bool a_transposed, const Tensor& b, bool accumulate, const View& c);

/// Such a product as the gradient of an input, added to what other uses of it have gathered.
Tensor gradient_product(const Call& call, int input, const Tensor& a, bool a_transposed, const Tensor& b);

/// Gradients of an affine map's inputs, W and b as far as they are wanted, x's left empty: dW = Σ_rows dyᵀ h, db = Σ_rows dy.
/// `h` is what W multiplies, and may be empty if W's is not wanted.
Tensors parameter_gradients(const Call& call, const Tensor& h);
/// The same by kernels.
Tensors parameter_gradients_by_kernel(const Call& call, const Tensor& h);

}  // namespace capstan::ops
