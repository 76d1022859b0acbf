// Activation functions, element by element, f32 or f64. Not for: gated units, which take two tensors.
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// max(x, 0). The subgradient at 0 is 0. NaN stays NaN.
Tensor relu(const Tensor& x);

/// x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), the tanh form of GELU (Hendrycks and Gimpel 2016, §2), computed without
/// cancellation for negative x. gelu_tanh(1) = 0.8411920, gelu_tanh(−6) = −8.4396e−11.
Tensor gelu_tanh(const Tensor& x);

/// x · Φ(x) = x/2 · erfc(−x/√2), the exact GELU (Hendrycks and Gimpel 2016, §2), without cancellation for negative x.
/// gelu_erf(1) = 0.8413447, gelu_erf(−6) = −5.9195e−9.
Tensor gelu_erf(const Tensor& x);

/// x · σ(x), also known as swish (Elfwing, Uchibe and Doya 2018, eq. 13), σ being sigmoid(): relatively accurate in both
/// tails. silu(1) = 0.7310586, silu(−40) = −1.6993e−16.
Tensor silu(const Tensor& x);

/// log(1 + eˣ) = max(x, 0) + log(1 + e^−|x|), a smooth max(x, 0) (Dugas et al. 2001): relatively accurate in both tails.
/// Its slope is σ(x). softplus(0) = log 2, softplus(−40) = 4.2484e−18.
Tensor softplus(const Tensor& x);

}  // namespace capstan
