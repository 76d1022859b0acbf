// Sums, means and maxima over axes, and the reverse of broadcasting. Not for: log-sum-exp (softmax.h).
#pragma once

#include <capstan/autograd/tensor.h>
#include <capstan/ops/axes.h>

namespace capstan {

/// The last argument of reductions: reduced axes stay, with size 1, so that the result broadcasts against x.
inline constexpr bool keep_axes = true;

// All of them: x is f32 or f64 (sum and max also i32, never recorded). Without axes everything is reduced to a scalar; an
// empty list {} reduces nothing. f32 is summed in f64 and rounded once, in an order that the shape alone decides. Errors: an axis
// out of range, or named twice.

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

/// The reverse of broadcasting `shape` to x's shape: x summed over the axes that were stretched; x itself if the shape is
/// equal. f32 or f64.   sum_to([[1, 2], [3, 4]], [2, 1]) = [[3], [7]].   An Error if `shape` does not broadcast to x's.
Tensor sum_to(Tensor x, const Shape& shape);

}  // namespace capstan
