// What gemm.cpp chooses from; each part runs on the calling thread alone. Not for: users (gemm.h).
#pragma once

#include <capstan/ops/kernels/gemm.h>

namespace capstan::kernels {

/// True if gemm_small serves this product: so small that packing, or oneDNN's call, would cost more than the product.
bool is_small(const Product<float>& p);
bool is_small(const Product<double>& p);

/// Both want m, n, k > 0; they honour `accumulate` and ignore `bias` (gemm.cpp has put it into C).
void gemm_small(const Product<float>& p);
void gemm_small(const Product<double>& p);

/// oneDNN for f32, packed SIMD tiles for f64. The same conditions.
void gemm_large(const Product<float>& p);
void gemm_large(const Product<double>& p);

}  // namespace capstan::kernels
