// Moving elements without change, whatever their strides. Not for: changing the dtype (elementwise.h, cast).
#pragma once

#include <capstan/autograd/view.h>

namespace capstan::kernels {

/// y = x, same dtype (any); x broadcasts to y's shape. y may have any strides (a slice of a larger tensor, as in pad and
/// concat), and must not overlap x. Transposes go through cache-sized tiles.
void copy(ConstView x, View y);

/// Every element of y = value, converted to y's dtype. y may have any strides.
void fill(View y, double value);

}  // namespace capstan::kernels
