// Sums, maxima and minima over any set of axes of a strided operand. Not for: argmax (arg.h), running sums (scan.h),
// softmax's row statistics (softmax.h).
//
// Sums are blocked and pairwise: f32 is widened to f64 on the way in and rounded once at the end. The innermost blocks
// are at most 4096 neighbours, added in 8 or more interleaved partial sums, or 128 rows, added column by column;
// everything above is joined pairwise. So no element passes through more than some 512 + log2(n) additions, and n f64
// terms err by at most that many times ε Σ |x|, whatever n, the axes and the strides. The order is fixed by shape and
// strides, never by the number of threads, so the bytes are the same for any of them.
#pragma once

#include <capstan/autograd/view.h>

#include <cstdint>

namespace capstan::kernels {

/// A set of axes: bit i is axis i.
using AxisMask = std::uint32_t;
constexpr AxisMask axis_bit(int axis) { return AxisMask{1} << axis; }
constexpr AxisMask all_axes(int rank) { return (AxisMask{1} << rank) - 1; }

/// y = Σ x over `axes`. f32 or f64 (the same), or i32 (wraps around). y holds the kept axes in order, row-major; axes of
/// size 1 in their place are welcome, so keep_dims makes no difference. The sum of nothing is 0.
void sum(ConstView x, AxisMask axes, View y);

/// y = scale · Σ x over `axes`, f32 or f64, scaled in f64 before rounding (mean: scale = 1/count).
void scaled_sum(ConstView x, AxisMask axes, double scale, View y);

/// y = max x over `axes`, f32, f64 or i32; NaN if any is NaN. The maximum of nothing is −∞ (the smallest i32).
void max(ConstView x, AxisMask axes, View y);

/// y = min x, the same way; the minimum of nothing is +∞ (the largest i32).
void min(ConstView x, AxisMask axes, View y);

/// y = Σ x over the axes that a broadcast from y's shape to x's shape stretched (the gradient of a broadcast).
/// y's shape broadcasts to x's shape; f32 or f64.
void sum_to(ConstView x, View y);

/// √Σ x², f32 or f64, without overflow or underflow; infinity if any is infinite and none is NaN.
double norm(ConstView x);

}  // namespace capstan::kernels
