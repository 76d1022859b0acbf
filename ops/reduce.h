// Sums, means, variances, maxima and minima over axes, and the reverse of broadcasting. Not for: log-sum-exp
// (softmax.h), places of extremes (arg.h), running sums (scan.h).
#pragma once

#include <capstan/autograd/tensor.h>
#include <capstan/ops/axes.h>

namespace capstan {

/// The last argument of reductions: reduced axes stay, with size 1, so that the result broadcasts against x.
inline constexpr bool keep_axes = true;

// All of them: x is f32 or f64 (sum, max and min also i32, never recorded). Without axes everything is reduced to a
// scalar; an empty list {} reduces nothing. Sums are pairwise, f32 in f64 and rounded once, in an order that shape and
// strides alone decide (kernels/reduce.h). Errors: an axis out of range, or named twice.

/// Σ x.   dx = dy, stretched to x's shape.   sum([[1, 2], [3, 4]], 0) = [4, 6]; the sum of nothing is 0.
Tensor sum(const Tensor& x);
Tensor sum(const Tensor& x, const Axes& axes, bool keep = false);

/// Σ x / n, n elements each.   dx = dy / n, stretched to x's shape.   An Error where n is 0 (and there is a result).
Tensor mean(const Tensor& x);
Tensor mean(const Tensor& x, const Axes& axes, bool keep = false);

/// max x; NaN if any element is NaN.   dx = dy at the maximum; where k elements share it, each gets dy / k.   An Error where
/// there are no elements (and there is a result).
Tensor max(const Tensor& x);
Tensor max(const Tensor& x, const Axes& axes, bool keep = false);

/// min x, in every way like max.
Tensor min(const Tensor& x);
Tensor min(const Tensor& x, const Axes& axes, bool keep = false);

struct VarianceOptions {
  /// Subtracted from the count: 0 is the mean square itself, 1 makes it unbiased for a sample (Bessel).
  int correction = 0;
};
/// Σ (x − mean x)² / (n − correction), n elements each: two passes, so that what all have in common cancels first; the
/// mean is rounded to x's dtype, which adds at most (ε · mean x)². variance([1, 2, 3, 4]) = 1.25; with correction 1:
/// 1.6666667.
/// dx = 2 (x − mean x) dy / (n − correction).   Errors: n ≤ correction (where there is a result); a negative
/// correction.
Tensor variance(const Tensor& x);
Tensor variance(const Tensor& x, const Axes& axes, const VarianceOptions& options = {}, bool keep = false);

/// The reverse of broadcasting `shape` to x's shape: x summed over the axes that were stretched; x itself if the shape is
/// equal. f32 or f64.   sum_to([[1, 2], [3, 4]], [2, 1]) = [[3], [7]].   An Error if `shape` does not broadcast to x's.
Tensor sum_to(Tensor x, const Shape& shape);

}  // namespace capstan
