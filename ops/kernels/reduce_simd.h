// The innermost loops of reductions, on SIMD. Not for: users (reduce.h).
#pragma once

#include <capstan/autograd/shape.h>

#include <cstdint>

namespace capstan::kernels {

/// Σ x, Σ (scale · x)², max x, min x, max |x|. Only `squares` heeds the scale.
enum class Fold : std::uint8_t { sum, squares, largest, smallest, magnitude };

/// Folds x[0 … count) into one value.
using FoldRunF32 = double (*)(Fold fold, const float* x, Index count, double scale);
using FoldRunF64 = double (*)(Fold fold, const double* x, Index count, double scale);

/// Folds rows into `sums` [width]: row r is x[r · row … r · row + width).
using FoldRowsF32 = void (*)(Fold fold, const float* x, Index row, Index rows, Index width, double scale, double* sums);
using FoldRowsF64 = void (*)(Fold fold, const double* x, Index row, Index rows, Index width, double scale,
                             double* sums);

struct FoldKernels {
  FoldRunF32 run_f32;
  FoldRunF64 run_f64;
  FoldRowsF32 rows_f32;
  FoldRowsF64 rows_f64;
};
FoldKernels fold_kernels();

}  // namespace capstan::kernels
