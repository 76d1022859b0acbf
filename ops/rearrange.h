// Moving elements around without change: views (reshape, transpose, permute, broadcast_to, slice: no copy), and pad,
// concat, one_hot. Not for: rows and elements by id (embedding.h, gather.h); stacks, splits, repeats and flips
// (stack.h).
#pragma once

#include <capstan/autograd/tensor.h>
#include <capstan/ops/axes.h>

#include <initializer_list>
#include <limits>
#include <span>

namespace capstan {

// Any dtype. Nothing here keeps a value for backward.

/// The same elements in row-major order under another shape; a view where strides can express it, a copy otherwise, x itself
/// if the shape is equal.   dx = dy in x's shape.   An Error if the element counts differ.
Tensor reshape(const Tensor& x, const Shape& shape);
/// One size may be −1: whatever is left over.   reshape([2, 3, 4], {-1, 4}) is [6, 4].   Errors: a second −1; a remainder; −1
/// beside a size of 0.
Tensor reshape(const Tensor& x, std::initializer_list<Index> sizes);

/// Two axes swapped, the last two unless told; a view.   dx = the same swap of dy.   An Error for an axis out of range.
Tensor transpose(const Tensor& x, int a = -2, int b = -1);
/// Axis i of the result is axis axes[i] of x; a view.   permute([2, 3, 4], {2, 0, 1}) is [4, 2, 3].   dx = the inverse
/// permutation of dy.   An Error unless each axis is named once.
Tensor permute(const Tensor& x, const Axes& axes);
/// x stretched to `shape` as NumPy broadcasts; a view with strides of 0; x itself if the shape is equal.   dx = sum_to(dy).
/// An Error if x's shape does not broadcast to it.
Tensor broadcast_to(const Tensor& x, const Shape& shape);

/// "Up to the end", for slice's stop.
inline constexpr Index to_end = std::numeric_limits<Index>::max();
/// Elements start, start + step, … before stop of one axis; a view. Negative start and stop count from the end.
/// slice([0, 1, 2, 3, 4], 0, 1, -1) = [1, 2, 3]; with start 0, stop to_end, step 2: [0, 2, 4].   dx = dy between zeros
/// (see pad).   Errors (never a silent cut): start or stop outside the axis; start beyond stop; step below 1.
Tensor slice(const Tensor& x, int axis, Index start, Index stop, Index step = 1);
/// Zeros around and between: `before` zeros, then x's elements `step` apart, then `after` zeros. The transpose of slice.
/// pad([1, 2], 0, 1, 2, 3) = [0, 1, 0, 0, 2, 0, 0].   dx = the slice of dy.   Errors: a negative count; step below 1.
Tensor pad(const Tensor& x, int axis, Index before, Index after, Index step = 1);

/// Tensors one after the other along an axis; all other sizes equal, one dtype.   concat({[2, 3], [1, 3]}, 0) is [3, 3].
/// Each gradient is its slice of dy.   Errors: no tensors; scalars; sizes or dtypes that differ.
Tensor concat(std::span<const Tensor> tensors, int axis);
Tensor concat(std::initializer_list<Tensor> tensors, int axis);

/// ids [...] i32 → [..., classes]: 1 at the id, 0 elsewhere. A constant.   one_hot([1, 0], 3) = [[0, 1, 0], [1, 0, 0]].
/// An Error if an id is outside [0, classes), naming it and where it stands.
Tensor one_hot(const Tensor& ids, Index classes, DType dtype = DType::f32);

}  // namespace capstan
