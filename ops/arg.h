// Where the largest and the smallest elements stand. Not for: their values (max and min in reduce.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

/// The place in [0, n) of the largest element along one axis of n elements, i32; the axis vanishes, or stays with size
/// 1 (keep). Of equal elements the first; NaN counts as larger than every number, as in NumPy. A constant: a place
/// changes in jumps only.   x f32, f64 or i32.   argmax([[1, 5, 5], [7, 2, 0]], 1) = [1, 0].
/// Errors: x boolean; axis out of range; n = 0 (where there is a result) or n ≥ 2^31.
Tensor argmax(const Tensor& x, int axis, bool keep = false);

/// The same of the smallest element; NaN counts as smaller than every number.
/// argmin([[1, 5, 5], [7, 2, 0]], 1) = [0, 2].
Tensor argmin(const Tensor& x, int axis, bool keep = false);

}  // namespace capstan
