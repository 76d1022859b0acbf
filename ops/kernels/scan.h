// Running sums along one axis. Not for: sums of whole axes (reduce.h).
#pragma once

#include <capstan/autograd/view.h>

namespace capstan::kernels {

/// y_i = Σ_{j ≤ i} x_j along `axis`, or Σ_{j ≥ i} x_j in reverse; one element after the other in f64, rounded at each.
/// i32 wraps around. x f32, f64 or i32, any strides; y row-major.
void cumsum(ConstView x, int axis, bool reverse, View y);

}  // namespace capstan::kernels
