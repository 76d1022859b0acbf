// Elements along one axis chosen by ids, and the transpose, which adds them back. Not for: whole rows of a table
// (embedding.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// y[…, m, …] = x[…, ids[…, m, …], …] along `axis`: x of any dtype, ids i32 of x's rank and sizes, but for the axis →
/// y of ids' shape.   dx = scatter_add(dy, axis, ids, x's size).   gather([[1, 2], [3, 4]], 1, [[1], [0]]) = [[2],
/// [3]].
/// Errors: an id outside [0, x's size along the axis) (named, with its place); ids not i32, or of another shape.
Tensor gather(const Tensor& x, int axis, const Tensor& ids);

/// y[…, n, …] = Σ of src[…, m, …] over m with ids[…, m, …] = n: src f32 or f64, ids i32 of src's shape → src's shape
/// with `size` along the axis; 0 where no id points. Summed in order of m in f64 and rounded once, whatever the number
/// of threads.
/// dsrc = gather(dy, axis, ids).   scatter_add([1, 2, 4], 0, [0, 2, 0], 3) = [5, 0, 2].
/// Errors: an id outside [0, size) (named, with its place); a negative size; src not a float; ids as in gather.
Tensor scatter_add(const Tensor& src, int axis, const Tensor& ids, Index size);

}  // namespace capstan
