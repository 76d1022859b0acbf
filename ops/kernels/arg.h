// Where the extremes stand along one axis. Not for: the extremes themselves (reduce.h).
#pragma once

#include <capstan/autograd/view.h>

#include <cstdint>

namespace capstan::kernels {

enum class Extreme : std::uint8_t { largest, smallest };

/// y = the first place of the extreme of each row along `axis`, in row-major order, i32; NaN wins over every number.
/// x f32, f64 or i32, any strides. Rows have 1 to 2^31 − 1 elements.
void arg(Extreme extreme, ConstView x, int axis, View y);

}  // namespace capstan::kernels
