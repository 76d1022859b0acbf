// More rearrangements, most of them made of rearrange.h's: stacks, parts, repeats, flips. Not for: joining along an
// axis that exists (concat in rearrange.h).
#pragma once

#include <capstan/autograd/tensor.h>
#include <capstan/ops/axes.h>

#include <initializer_list>
#include <span>
#include <vector>

namespace capstan {

// Any dtype. Nothing here keeps a value for backward.

/// Tensors of one shape and dtype side by side along a new axis, in [−rank − 1, rank].   stack({[1, 2], [3, 4]}, 0) =
/// [[1, 2], [3, 4]], along axis 1: [[1, 3], [2, 4]].   Each gradient is its slice of dy.   Errors: no tensors; shapes
/// or dtypes that differ; axis out of range.
Tensor stack(std::span<const Tensor> tensors, int axis);
Tensor stack(std::initializer_list<Tensor> tensors, int axis);

/// x cut along an axis into parts of these sizes, in order; views. The reverse of concat.   dx = the parts' gradients,
/// one after the other.   split([1, 2, 3, 4, 5], {2, 3}, 0) is [1, 2] and [3, 4, 5].   Errors: a negative size; sizes
/// that do not add up to the axis.
std::vector<Tensor> split(const Tensor& x, std::span<const Index> sizes, int axis);
std::vector<Tensor> split(const Tensor& x, std::initializer_list<Index> sizes, int axis);
/// The same with `parts` equal parts.   An Error unless they divide the axis and are no more than its size.
std::vector<Tensor> split(const Tensor& x, Index parts, int axis);

/// Each element `count` times in a row along an axis.   repeat_interleave([1, 2], 3, 0) = [1, 1, 1, 2, 2, 2].   dx =
/// the sum of each element's copies in dy.   Errors: a negative count; axis out of range; x of 8 axes (unless count is
/// 1).
Tensor repeat_interleave(const Tensor& x, Index count, int axis);

/// The order of elements along these axes reversed; a copy.   flip([[1, 2], [3, 4]], 1) = [[2, 1], [4, 3]].   dx = the
/// flip of dy.   An Error for an axis out of range, or named twice.
Tensor flip(const Tensor& x, const Axes& axes);

}  // namespace capstan
