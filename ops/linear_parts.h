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

/// The bias's gradient: the sum of the rows of dy [M, N].
Tensor sum_of_rows(const Tensor& dy);

}  // namespace capstan::ops
