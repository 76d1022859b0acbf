// Running sums. Not for: sums of whole axes (reduce.h).
#pragma once

#include <capstan/autograd/tensor.h>

namespace capstan {

struct CumsumOptions {
  bool reverse = false;  ///< from the end: y_i = Σ_{j ≥ i} x_j
};

/// y_i = Σ_{j ≤ i} x_j along one axis.   dx = the same sum of dy, the other way round.   x f32 or f64, or i32 (wraps
/// around, never recorded). One element after the other in f64, rounded at each: f32 loses nothing on the way.
/// cumsum([1, 2, 3], 0) = [1, 3, 6]; in reverse: [6, 5, 3].   Errors: x boolean; axis out of range.
Tensor cumsum(const Tensor& x, int axis, const CumsumOptions& options = {});

}  // namespace capstan
