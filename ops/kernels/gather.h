// Elements along one axis by id, and the transpose: adding elements back. Not for: whole rows of a table (embedding.h),
// checking ids.
#pragma once

#include <capstan/autograd/view.h>

namespace capstan::kernels {

// ids are i32, any strides, all within the axis that they index; shapes agree except along `axis`.

/// y[…, m, …] = x[…, ids[…, m, …], …]; any dtype. y has ids' shape, row-major.
void gather(ConstView x, int axis, ConstView ids, View y);

/// y[…, n, …] = Σ of src[…, m, …] over m with ids[…, m, …] = n, in order of m in f64, rounded once; 0 where there is
/// none. f32, f64. src has ids' shape; y is row-major.
void scatter_add(ConstView src, int axis, ConstView ids, View y);

}  // namespace capstan::kernels
