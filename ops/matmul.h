// Matrix products. Not for: y = x Wᵀ + b with weights as they are stored (linear.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// y = a · b with NumPy's rules: a [..., M, K] times b [..., K, N] is [..., M, N], and leading axes broadcast. A 1-D a is
/// a row, a 1-D b a column, whose axis of length 1 vanishes from y: [K] · [K] is a scalar, [M, K] · [K] is [M].
/// K = 0 gives zeros. f32 or f64, the same for both; transposed and strided operands are read in place.
/// matmul(tensor({{1, 2}, {3, 4}}), tensor({5, 6})) = [17, 39].
/// Errors: an operand is a scalar; dtypes differ or are not floats; inner sizes differ; leading axes do not broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);

/// y = a · bᵀ ("NT", as BLAS calls it): matmul(a, transpose(b)) as one op. a [..., M, K] times b [..., N, K] is [..., M, N], and
/// leading axes broadcast; both have at least two axes.
/// matmul_nt(tensor({{1, 2}, {3, 4}}), tensor({{5, 6}})) = [[17], [39]].   Errors: as matmul, and an operand of one axis.
Tensor matmul_nt(const Tensor& a, const Tensor& b);

}  // namespace capstan
