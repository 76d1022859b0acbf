// Dropping elements by a key. Not for: fills with random numbers (autograd/random.h).
#pragma once

#include <capstan/autograd/random.h>
#include <capstan/autograd/view.h>

namespace capstan::kernels {

/// y_i = keep(i) ? x_i · factor : 0, i counted in row-major order. f32 or f64, the same for both; x has y's shape and any
/// strides, y is row-major and dense.
void dropout(ConstView x, const Keep& keep, double factor, View y);

}  // namespace capstan::kernels
